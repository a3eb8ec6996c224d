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
	env TMPDIR="$folder" MODELS=tiny OPS_MODELS=tiny TOKENS=64 "$@" \
		sh tests/check_gpu.sh "$build" "$folder" >"$log" 2>&1
	code=$?
	last=$(tail -n 1 "$log")
}

for program in test_instructions test_op_rows test_op_adamw bench_step bench_ops golden_models; do
	ln -s "$PWD/$build/cuda-emu/fast/$program" "$folder/$program"
done
ln -s "$PWD/$build/cuda-emu/served/stepd-worker" "$folder/stepd-worker"

check_gpu PART="ops speed"
expr "$last" : '[1-9][0-9]* passed, 0 failed$' >/dev/null && [ $code -eq 0 ]
ok $? "all is well: exit $code, $last"
for row in ops/instructions ops/rows ops/adamw speed/tiny; do
	grep -qE "^$row +[1-9][0-9]* passed +0 failed" "$log"
	ok $? "no row of $row"
done
for words in '64 tokens: .* tokens/s' 'GB planned, .* GB taken' '^all .* tokens/s'; do
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

check_gpu EMU_DEVICES=0
grep -q 'no device computes here' "$log" && [ $code -ne 0 ] && expr "$last" : '.* failed$' >/dev/null
ok $? "no device: exit $code, $last"

check_gpu PART=nothing
[ $code -eq 2 ]
ok $? "an unknown part: exit $code"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
