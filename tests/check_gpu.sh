#!/bin/sh
# make check-gpu: proves the CUDA backend on the device at hand. No network. PART= runs one of
# probe ops golden e2e speed sanitizer; without it all run, in this order, the last as long as SECONDS_IN_ALL
# are not over. compute-sanitizer, and Python for some of e2e, are skipped by name where they are not. MODELS= OPS_MODELS= TOKENS= are for speed, whose
# models need up to 16 GB below TMPDIR for a moment.
# Usage: tests/check_gpu.sh BUILD FOLDER: of the programs that are linked with CUDA's ops
set -u
build=$1 cuda=$2
passed=0 failed=0
began=$(date +%s)
scratch=$(mktemp -d)
log=$scratch/log
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

# Adds up what a program said in its last line; one that said nothing, failed, or did not end in LIMIT
# seconds is one failure more.
count() {
	name=$1
	shift
	start=$(date +%s)
	timeout -k 5 "${LIMIT:-120}" "$@" >"$log" 2>&1 </dev/null
	code=$?
	line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
	p=${line%% passed*} f=${line#*, }
	f=${f%% failed*}
	[ -n "$line" ] || p=0 f=1
	[ "$code" -eq 0 ] || [ "$f" -gt 0 ] || f=1
	passed=$((passed + p)) failed=$((failed + f))
	printf '%-40s %5d passed %4d failed %4d s\n' "$name" "$p" "$f" $(($(date +%s) - start))
	[ "$code" -ne 124 ] && [ "$code" -ne 137 ] || echo "    it did not end in ${LIMIT:-120} seconds"
	[ "$f" -eq 0 ] || tail -n 10 "$log" | sed 's/^/    /'
}

probe() {
	[ -e /dev/nvidia-uvm ] || [ ! -e /proc/driver/nvidia ] ||
		echo "/dev/nvidia-uvm is not there: nvidia-modprobe -c0 -u makes it"
	answer=$(timeout -k 5 60 "$cuda/stepd-worker" --probe)
	echo "$answer"
	case $answer in
	*'"verified":true'*) passed=$((passed + 1)) ;;
	*)
		# Only in the sandbox? Then the rest is still worth knowing.
		failed=$((failed + 1))
		refused
		answer=$(STEPD_SANDBOX=off timeout -k 5 60 "$cuda/stepd-worker" --probe)
		echo "$answer"
		;;
	esac
	case $answer in
	*'"verified":true'*) ;;
	*)
		echo "no device computes here: nothing more can be checked"
		echo "$passed passed, $failed failed"
		exit 1
		;;
	esac
}

ops() {
	for t in "$cuda"/test_instructions "$cuda"/test_op_*; do
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
	"$build/tests/refused" "$cuda/stepd-worker" --probe >"$log" 2>&1
	sed 's/^/    /' "$log"
	dmesg 2>/dev/null | grep -aE 'audit:.*(SECCOMP|LANDLOCK)' | tail -n 20 | sed 's/^/    /'
	echo "    to be added, with its reason, to worker/driver_rules.c; until then STEPD_SANDBOX=off"
}

# By stepd: with its sandbox, and where that fails without it, so that it is known which of the two it is.
e2e() {
	before=$failed
	count e2e/train sh tests/gpu_train.sh "$build" "$cuda/stepd-worker"
	if ! command -v python3 >/dev/null; then
		echo "skipped: e2e/session and e2e/contract need python3"
		return
	fi
	count e2e/session env STEPD_BUILD="$build" GPU_WORKER="$cuda/stepd-worker" python3 tests/http/gpu_session.py
	count e2e/contract env STEPD_BUILD="$cuda" sh tests/http/contract_replay.sh
	[ "$failed" -gt "$before" ] || return
	[ "${STEPD_SANDBOX:-auto}" != off ] || return
	refused
	count e2e/contract-without-sandbox env STEPD_BUILD="$cuda" STEPD_SANDBOX=off sh tests/http/contract_replay.sh
}

# Whole steps of models of random weights, then their ops one by one.
speed() {
	for model in ${MODELS:-SmolLM2-135M Llama-3.2-1B Llama-3.2-3B Llama-3.1-8B}; do
		count "speed/$model" "$cuda/bench_step" bf16 "$model" "${TOKENS:-4096}" "$scratch"
		sed 's/^/    /' "$log"
	done
	for model in ${OPS_MODELS:-smollm2-135m llama-3.2-1b llama-3.1-8b}; do
		for act in bf16 f32; do
			echo "-- ops of $model, $act"
			timeout -k 5 "${LIMIT:-120}" "$cuda/bench_ops" $act 0 "$model" >"$log" 2>&1
			code=$?
			cat "$log"
			if [ $code -eq 0 ]; then
				passed=$((passed + 1))
			else
				failed=$((failed + 1))
			fi
		done
	done
}

# Last, as it is slow: it may take LIMIT seconds for each.
sanitizer() {
	if ! command -v compute-sanitizer >/dev/null; then
		echo "skipped: compute-sanitizer is not installed"
		return
	fi
	for tool in memcheck racecheck initcheck; do
		if [ $(($(date +%s) - began + 2 * LIMIT)) -gt "${SECONDS_IN_ALL:-350}" ]; then
			echo "skipped: $tool: no time left of ${SECONDS_IN_ALL:-350} s (PART=sanitizer)"
			continue
		fi
		count "$tool/attention" compute-sanitizer --tool $tool --error-exitcode 9 \
			"$cuda/test_op_attention" packed_is_alone cached
		count "$tool/head_loss" compute-sanitizer --tool $tool --error-exitcode 9 \
			"$cuda/test_op_head_loss" loss_and_gradient
	done
}

probe
for part in ${PART:-ops golden e2e speed sanitizer}; do
	case $part in
	probe) ;;
	ops | golden | e2e | speed) $part ;;
	sanitizer) LIMIT=${LIMIT:-30} $part ;;
	*)
		echo "check_gpu.sh: no part named $part" >&2
		exit 2
		;;
	esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
