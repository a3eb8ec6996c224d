#!/bin/sh
# make check-gpu's script over the emulated programs: what it runs is there and ends well, what fails
# or does not end is counted, told, and makes it fail; a machine without a device is told of.
# Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}
passed=0 failed=0
folder=$(mktemp -d)
log=$folder/log
trap 'rm -rf "$folder"' EXIT
export EMU_GUARD=0

ok() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "failed: $2"
		tail -n 20 "$log"
	fi
}

# The script with more settings; what it ended with is in $code and $last.
check_gpu() {
	env TMPDIR="$folder" MODELS=tiny PEERS=tiny OPS_MODELS=tiny TOKENS=64 "$@" \
		sh tests/check_gpu.sh "$build" "$folder" >"$log" 2>&1
	code=$?
	last=$(tail -n 1 "$log")
}

for program in test_instructions test_arithmetic test_op_rows test_op_adamw bench_step bench_ops golden_models; do
	ln -s "$PWD/$build/cuda-emu/fast/$program" "$folder/$program"
done
ln -s "$PWD/$build/cuda-emu/served/stepd-worker" "$folder/stepd-worker"

# A PyTorch that says what the step of the table is compared with.
cat >"$folder/peer" <<'EOF'
#!/bin/sh
case $1 in
-c) ;;
*) [ -s "$4/config.json" ] && printf 'row\ttiny\t64\t4\t1000.00\n1 passed, 0 failed\n' ;;
esac
EOF
chmod +x "$folder/peer"

check_gpu PART="ops speed peer shapes" PEER="$folder/peer"
expr "$last" : '[1-9][0-9]* passed, 0 failed$' >/dev/null && [ $code -eq 0 ]
ok $? "all is well: exit $code, $last"
for row in ops/instructions ops/arithmetic ops/rows ops/adamw speed/tiny peer shapes/tiny-bf16 shapes/tiny-f32; do
	grep -qE "^$row +[1-9][0-9]* passed +0 failed" "$log"
	ok $? "no row of $row"
done
tab=$(printf '\t')
number='[0-9.]+'
for words in '64 tokens: .* tokens/s' 'CUDA graphs: .* launched [1-9][0-9]* times' 'ms without CUDA graphs, .* ms with' 'GB planned, .* GB taken' '^ *all .* tokens/s' '^-- speed: [0-9]+ s, [0-9]+ s in all' \
	"^card${tab}emulated device" "^CUDA of the programs${tab}[0-9]+" \
	"^tiny${tab}64${tab}1$tab$number$tab$number$tab$number$tab$number$tab-$tab$number$tab$number$tab-$tab-" \
	"^tiny${tab}64${tab}4$tab$number$tab$number$tab$number$tab$number$tab-$tab$number$tab$number${tab}1000.00$tab$number"; do
	grep -qE "$words" "$log"
	ok $? "nothing like '$words'"
done

# The model of e2e/train is what its maker makes.
python3 tests/data/models/make_tiny.py "$folder/tiny" && diff -r "$folder/tiny" tests/data/models/tiny >"$log"
ok $? "tests/data/models/tiny is another than make_tiny.py makes"
sh tests/gpu_train.sh "$build" "$folder/stepd-worker" >"$log" 2>&1
ok $? "a run by stepctl"

printf '#!/bin/sh\nexit 3\n' >"$folder/test_op_broken"
printf '#!/bin/sh\nsleep 600\n' >"$folder/test_op_endless"
chmod +x "$folder"/test_op_broken "$folder"/test_op_endless
rm "$folder/test_op_rows"
check_gpu PART=ops LIMIT=20
expr "$last" : '.* passed, 2 failed$' >/dev/null && [ $code -ne 0 ]
ok $? "two fail: exit $code, $last"
grep -q 'did not end in 20 seconds' "$log"
ok $? "one that does not end is not told of"

# What would begin or end too late is told of, and is no failure.
rm "$folder"/test_op_broken
check_gpu PART="ops speed" LIMIT=300 SECONDS_IN_ALL=25
expr "$last" : '.* passed, 0 failed$' >/dev/null && [ $code -eq 0 ]
ok $? "no time left: exit $code, $last"
grep -q 'stopped: ops/endless' "$log" && grep -q 'skipped: speed/tiny' "$log" &&
	grep -q "^not run to its end: ops/endless speed/tiny" "$log"
ok $? "what was not run is not told of"
rm "$folder"/test_op_endless

# The folder for other machines runs where it is unpacked, with a shell and its usual tools alone.
sh tests/gpu_bundle.sh "$build" "$folder" "$folder/a folder" >"$log" 2>&1
ok $? "no bundle"
mkdir "$folder/there" "$folder/tools" && tar -C "$folder/there" -xzf "$folder/a folder.tar.gz"
for tool in sh awk basename cat cmp cp date dirname env find getconf grep head id ls mkdir mktemp realpath rm sed sort tail \
	timeout tr uname wc; do
	ln -s "$(command -v $tool)" "$folder/tools/$tool"
done
(cd / && env -i PATH="$folder/tools" TMPDIR="$folder" EMU_GUARD=0 LD_LIBRARY_PATH="$folder/there/a folder/lib" \
	PART="ops e2e" LIMIT=300 SECONDS_IN_ALL=1200 "$folder/there/a folder/check-gpu.sh") >"$log" 2>&1
code=$? last=$(tail -n 1 "$log")
expr "$last" : '[1-9][0-9]* passed, 0 failed$' >/dev/null && [ $code -eq 0 ] && grep -q '^e2e/train *11 passed' "$log"
ok $? "the bundle: exit $code, $last"

# Its stepd has libevent within, and of that what an older glibc lacks. Linked of the objects that are there.
older=$folder/older
mkdir "$older" && cp -a "$build"/*.a "$build/ipc" "$build/supervisor" "$older"
MAKEFLAGS='' make BUILD="$older" BUNDLED=1 "$older/stepd" >"$log" 2>&1 && objdump -pT "$older/stepd" >"$log" &&
	! grep -qE 'NEEDED .*libevent|\*UND\*.*arc4random' "$log" && grep -q 'NEEDED .*libcurl' "$log"
ok $? "the bundle's stepd needs libevent, or a glibc as new as here"
env -i PATH="$PATH" TRAINER_TOKEN=0123456789abcdef STEPD_WORKER=/bin/true STEPD_STATE_DIR="$folder/state" "$older/stepd" --check >"$log" 2>&1
ok $? "the bundle's stepd does not start"

check_gpu EMU_DEVICES=0
grep -q 'no device computes here' "$log" && [ $code -ne 0 ] && expr "$last" : '.* failed$' >/dev/null
ok $? "no device: exit $code, $last"

# What makes no sense is refused before anything computes.
for setting in PART=nothing PART="ops nothing" SECONDS_IN_ALL=abc SECONDS_IN_ALL=-1 SECONDS_IN_ALL=1.5 SECONDS_IN_ALL=08 \
	LIMIT=x TMPDIR="$folder/nowhere"; do
	check_gpu PART=ops "$setting"
	[ $code -eq 2 ] && grep -q "^check_gpu.sh: .*${setting%%=*}" "$log" && ! grep -q 'backend' "$log"
	ok $? "$setting: exit $code"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
