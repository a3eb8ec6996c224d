#!/bin/sh
# make check-gpu: proves the CUDA backend on the device at hand and times it. No network. PART= runs some of
# probe ops golden e2e speed peer shapes sanitizer; without it all run, in this order. What would begin or end behind
# SECONDS_IN_ALL (350) is told of by name and left out. compute-sanitizer, PyTorch with PEFT (PEER= names another
# Python), and Python for some of e2e are skipped by name where they are not. MODELS= PEERS= OPS_MODELS= TOKENS= are for
# speed, peer and shapes; the models' weights lie in memory, up to 16 GB, or below TMPDIR where that is short.
# Seconds that are expected on an H200 with 16 processors, where it has not run: probe 6, ops 30 (15 programs that start
# CUDA, a second each, and the CPU's reference), golden 10, e2e 100 (some 40 starts of a worker or a probe), speed 65
# (400,000 tokens a model: 27 for 8B at 15,000 tokens/s, 6 to make its weights), peer 50, shapes 30, sanitizer what is left.
# The last lines are a table of the steps, tab separated, and `N passed, N failed`.
# Usage: tests/check_gpu.sh BUILD FOLDER: of the programs that are linked with CUDA's ops
set -u
build=$1 cuda=$2
parts='ops golden e2e speed peer shapes sanitizer'
passed=0 failed=0 unrun='' holders=''
began=$(date +%s)
SECONDS_IN_ALL=${SECONDS_IN_ALL:-350}

# What was asked for makes no sense: before anything computes.
refuse() {
	echo "check_gpu.sh: $1" >&2
	exit 2
}
for part in ${PART:-}; do
	case " probe $parts " in
	*" $part "*) ;;
	*) refuse "no part named $part in PART: probe $parts" ;;
	esac
done
for setting in "SECONDS_IN_ALL=$SECONDS_IN_ALL" "LIMIT=${LIMIT:-120}"; do
	case ${setting#*=} in
	0?* | *[!0-9]*) refuse "$setting: not a whole number of seconds" ;;
	esac
done
scratch=$(mktemp -d) || refuse "nowhere to write: TMPDIR names a folder for it"
log=$scratch/log rows=$scratch/rows peers=$scratch/peers
: >"$rows" && : >"$peers"
trap 'rm -rf "$scratch"; kill $holders 2>/dev/null' EXIT
trap 'exit 1' INT TERM

left() {
	echo $((SECONDS_IN_ALL - $(date +%s) + began))
}

# Says the last line, and what was left out.
finish() {
	[ -z "$unrun" ] || echo "not run to its end:$unrun"
	echo "$passed passed, $failed failed"
	[ "$failed" -eq 0 ]
	exit
}

# Adds up what a program said in its last line; one that said nothing, failed, or did not end in LIMIT
# seconds is one failure more. One for which less than LEAST seconds are left does not begin.
count() {
	name=$1
	shift
	limit=${LIMIT:-120} rest=$(left)
	: >"$log"
	if [ "$rest" -lt "${LEAST:-5}" ]; then
		echo "skipped: $name: no time left of $SECONDS_IN_ALL s (PART=$part)"
		unrun="$unrun $name"
		return
	fi
	[ "$limit" -le "$rest" ] || limit=$rest
	start=$(date +%s)
	timeout -k 5 "$limit" "$@" >"$log" 2>&1 </dev/null
	code=$?
	took=$(($(date +%s) - start))
	if [ "$code" -ge 124 ] && [ "$took" -ge "$limit" ] && [ "$limit" -lt "${LIMIT:-120}" ]; then
		echo "stopped: $name after $took s: no time left of $SECONDS_IN_ALL s (PART=$part)"
		unrun="$unrun $name"
		tail -n 3 "$log" | sed 's/^/    /'
		return
	fi
	line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
	p=${line%% passed*} f=${line#*, }
	f=${f%% failed*}
	[ -n "$line" ] || p=0 f=1
	[ "$code" -eq 0 ] || [ "$f" -gt 0 ] || f=1
	passed=$((passed + p)) failed=$((failed + f))
	printf '%-40s %5d passed %4d failed %4d s\n' "$name" "$p" "$f" "$took"
	[ "$code" -ne 124 ] && [ "$code" -ne 137 ] || echo "    it did not end in $limit seconds"
	[ "$code" -le 128 ] || [ "$code" -eq 137 ] || echo "    it was ended by signal $((code - 128))"
	[ "$f" -eq 0 ] || tail -n 10 "$log" | sed 's/^/    /'
}

# What is known before anything computes.
machine() {
	echo "kernel $(uname -r), $(getconf GNU_LIBC_VERSION 2>/dev/null), $(getconf _NPROCESSORS_ONLN) processors," \
		"$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo | sed 's/......$/ GB/')," \
		"user $(id -u)"
	driver=$(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,power.limit --format=csv,noheader 2>/dev/null ||
		sed -n 's/^NVRM version: *//p' /proc/driver/nvidia/version 2>/dev/null)
	echo "driver: ${driver:-nothing is said of one}"
	[ -e /dev/nvidia-uvm ] || [ ! -e /dev/nvidiactl ] ||
		echo "/dev/nvidia-uvm is not there: nvidia-modprobe -c0 -u makes it"
}

# A GPU that nobody has open is started anew by each program, which takes seconds where no daemon of NVIDIA's keeps it
# running: somebody has it open until the end.
hold_gpus() {
	for node in /dev/nvidia[0-9]*; do
		[ -c "$node" ] || continue
		sleep 3600 <"$node" >"$scratch/held" 2>&1 &
		holders="$holders $!"
	done
}

verified() {
	case $answer in
	*'"verified":true'*) ;;
	*) false ;;
	esac
}

probe() {
	answer=$(timeout -k 5 60 "$cuda/stepd-worker" --probe)
	echo "$answer"
	if verified; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	# Only in the sandbox? Then the rest is still worth knowing.
	answer=$(STEPD_SANDBOX=off timeout -k 5 60 "$cuda/stepd-worker" --probe)
	echo "without the sandbox: $answer"
	if verified; then
		refused
		return
	fi
	ls -l /dev/nvidia* 2>&1
	echo "no device computes here: nothing more can be checked"
	finish
}

ops() {
	for t in "$cuda"/test_instructions "$cuda"/test_arithmetic "$cuda"/test_op_*; do
		name=${t##*/test_}
		[ ! -x "$t" ] || count "ops/${name#op_}" "$t"
	done
}

golden() {
	for model in tests/data/golden/models/*/; do
		[ ! -f "$model/config.json" ] || count "golden/$(basename "$model")" "$cuda/golden_models" "${model%/}"
	done
}

# A probe in the sandbox that workers have, and what the kernel refused the driver there.
refused() {
	echo "the driver did not work in the sandbox of workers; what it was refused there:"
	timeout -k 5 60 "$build/tests/refused" "$cuda/stepd-worker" --probe >"$log" 2>&1
	sed 's/^/    /' "$log"
	dmesg 2>/dev/null | grep -aE 'audit:.*(SECCOMP|LANDLOCK)' | tail -n 20 | sed 's/^/    /'
	echo "    to be added, with its reason, to worker/driver_rules.c; until then STEPD_SANDBOX=off"
}

# For certificates; a bundle brings one.
find_openssl() {
	command -v openssl >/dev/null && return
	[ -x lib/openssl ] || return
	mkdir -p "$scratch/bin"
	printf '[req]\ndistinguished_name = dn\n[dn]\n' >"$scratch/bin/openssl.cnf"
	printf '#!/bin/sh\nOPENSSL_CONF=%s LD_LIBRARY_PATH=%s exec %s "$@"\n' "$scratch/bin/openssl.cnf" "$PWD/lib" \
		"$PWD/lib/openssl" >"$scratch/bin/openssl"
	chmod +x "$scratch/bin/openssl"
	PATH=$scratch/bin:$PATH
}

# By stepd: with its sandbox, and where that fails without it, so that it is known which of the two it is.
e2e() {
	before=$failed
	count e2e/train sh tests/gpu_train.sh "$build" "$cuda/stepd-worker"
	find_openssl
	if command -v python3 >/dev/null && command -v openssl >/dev/null; then
		count e2e/session env STEPD_BUILD="$build" GPU_WORKER="$cuda/stepd-worker" python3 tests/http/gpu_session.py
		count e2e/contract env STEPD_BUILD="$build" GPU_WORKER="$(realpath "$cuda/stepd-worker")" sh tests/http/contract_replay.sh
	else
		echo "skipped: e2e/session and e2e/contract need python3 and openssl"
	fi
	[ "$failed" -gt "$before" ] || return
	[ "${STEPD_SANDBOX:-auto}" != off ] || return
	refused
	count e2e/train-without-sandbox env STEPD_SANDBOX=off sh tests/gpu_train.sh "$build" "$cuda/stepd-worker"
}

# Whole steps of models of random weights.
speed() {
	for model in ${MODELS:-SmolLM2-135M Llama-3.2-1B Llama-3.2-3B Llama-3.1-8B}; do
		LEAST=15 count "speed/$model" "$cuda/bench_step" bf16 "$model" "${TOKENS:-4096}" "$scratch"
		sed -n 's/^row	//p' "$log" >>"$rows"
		grep -av '^row	' "$log" | sed 's/^/    /'
	done
}

# The same steps in PyTorch with PEFT, on the same card.
peer() {
	python=${PEER:-python3} configs=''
	if ! "$python" -c 'import importlib.util as u, sys
sys.exit(None in map(u.find_spec, ("torch", "transformers", "peft")))' 2>/dev/null; then
		echo "skipped: peer: $python has no torch, transformers and peft (PEER=)"
		return
	fi
	for model in ${PEERS:-Llama-3.2-1B Llama-3.1-8B}; do
		mkdir -p "$scratch/$model"
		"$cuda/bench_step" config "$model" >"$scratch/$model/config.json" && configs="$configs $scratch/$model"
	done
	# PyTorch has libraries of its own.
	# shellcheck disable=SC2086 # several folders
	LEAST=40 count peer env -u LD_LIBRARY_PATH "$python" tests/bench/peer_step.py --cuda "${TOKENS:-4096}" $configs
	sed -n 's/^row	//p' "$log" >>"$peers"
	grep -av '^row	' "$log" | sed 's/^/    /'
}

# The ops one by one.
shapes() {
	for model in ${OPS_MODELS:-llama-3.1-8b smollm2-135m llama-3.2-1b}; do
		for act in bf16 f32; do
			# shellcheck disable=SC2016 # for the shell that is started
			LEAST=10 count "shapes/$model-$act" sh -c '"$@" && echo "1 passed, 0 failed"' sh \
				"$cuda/bench_ops" "$act" 0 "$model"
			grep -av ' passed, ' "$log" | sed 's/^/    /'
		done
	done
}

# Slow: each may take LIMIT seconds.
sanitizer() {
	if ! command -v compute-sanitizer >/dev/null; then
		echo "skipped: compute-sanitizer is not installed"
		return
	fi
	LIMIT=${LIMIT:-60}
	for tool in memcheck racecheck initcheck; do
		LEAST=10 count "$tool/attention" compute-sanitizer --tool $tool --error-exitcode 9 \
			"$cuda/test_op_attention" packed_is_alone cached
		LEAST=10 count "$tool/head_loss" compute-sanitizer --tool $tool --error-exitcode 9 \
			"$cuda/test_op_head_loss" loss_and_gradient
	done
}

# value of NAME in the probe's answer, of the first device
told() {
	echo "$answer" | grep -oE "\"$1\": ?\"?[^\",}]*" | head -n 1 | sed 's/.*[:"]//'
}

# The steps, and beside each what PyTorch took for it.
table() {
	[ -s "$rows" ] || [ -s "$peers" ] || return
	tab=$(printf '\t')
	printf 'card\t%s\ndriver\t%s\nCUDA of the driver\t%s\nCUDA of the programs\t%s\n' "$(told name)" \
		"$(echo "$driver" | head -n 1)" "$(told driver)" "$(told runtime)"
	printf 'model\ttokens\tsequences\tms\ttokens/s\tTFLOP/s\t%% of cuBLAS here\t%% of the data sheet'
	printf '\troofline here, ms\t%% of the roofline\tPEFT, ms\ttimes PEFT\n'
	while IFS=$tab read -r model tokens sequences ms rest; do
		theirs=$(sed -n "s/^$model$tab$tokens$tab$sequences$tab//p" "$peers" | head -n 1)
		times=-
		[ -z "$theirs" ] || times=$(echo "$theirs $ms" | awk '{printf "%.2f", $1 / $2}')
		printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$model" "$tokens" "$sequences" "$ms" "$rest" "${theirs:--}" "$times"
	done <"$rows"
}

. "$(dirname "$0")/gpu_libraries.sh"
part=machine
machine
find_libraries || {
	failed=1
	finish
}
part=probe
hold_gpus
from=$(date +%s)
probe
echo "-- probe: $(($(date +%s) - from)) s"
for part in ${PART:-$parts}; do
	from=$(date +%s)
	[ "$part" = probe ] || $part
	now=$(date +%s)
	echo "-- $part: $((now - from)) s, $((now - began)) s in all"
done
table
finish
