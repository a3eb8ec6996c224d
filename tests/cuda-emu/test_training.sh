#!/bin/sh
# A session's training over the emulated kernels: the CPU's own tests of it and of loading, the plan of
# its memory against what is allocated, what a step allocates and waits for. Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}/cuda-emu/fast
passed=0 failed=0
log=$build/training.log

for test in test_load test_memory_plan test_trainer test_trainer_evaluate test_trainer_stale steps graphs graphs_memory; do
	EMU_GUARD=0 timeout 600 "$build/$test" >"$log" 2>&1
	code=$?
	line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
	f=${line#*, }
	f=${f%% failed*}
	[ -n "$line" ] || line=0 f=1
	[ $code -eq 0 ] || [ "$f" -gt 0 ] || f=1
	passed=$((passed + ${line%% passed*})) failed=$((failed + f))
	[ "$f" -eq 0 ] || { echo "$test: exit $code"; tail -n 10 "$log"; }
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
