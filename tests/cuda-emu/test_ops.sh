#!/bin/sh
# The tests of the ops, the very same as the CPU's, over the kernels of CUDA on the emulation: the
# fast build in three orders of threads and blocks, as devices of three capabilities, then bounds,
# then races, then alignment. The largest cases run in the fast build alone. Prints `N passed, N failed`, a program that breaks off
# counting as one more.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}/cuda-emu
passed=0 failed=0
log=$build/ops.log
export EMU_RESOURCES=tests/cuda-emu/resources.txt

# mode, seed, program, cases... One of the runs watches the host's own accesses and takes all the
# gradients' samples, the others look for what they alone can see.
run() {
	mode=$1 seed=$2 test=$3
	shift 3
	guard=0 samples=4
	case $seed in
	0) arch=80 ;;
	1) arch=86 ;;
	2) arch=90 ;;
	3) arch=89 ;;
	esac
	[ "$mode$seed" != fast2 ] || guard=1 samples=41
	OP_TEST_SAMPLES=$samples EMU_GUARD=$guard EMU_SEED=$seed EMU_ARCH=$arch timeout 300 "$build/$mode/$test" "$@" >"$log" 2>&1
	code=$?
	line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
	p=${line%% passed*}
	f=${line#*, }
	f=${f%% failed*}
	if [ -z "$line" ]; then
		p=0 f=1
	elif [ $code -ne 0 ] && [ "$f" -eq 0 ]; then
		f=1
	fi
	passed=$((passed + p)) failed=$((failed + f))
	[ "$f" -eq 0 ] || { echo "$mode, seed $seed, $test: exit $code"; tail -n 8 "$log" | cut -c 1-300; }
}

for source in tests/unit/test_op_*.c; do
	test=$(basename "$source" .c)
	run fast 2 "$test"
	case $test in
	test_op_attention)
		# other kernels where a multiprocessor has less shared memory: that of sm_86
		export EMU_SHARED=101376
		for mode in fast asan race gcc; do
			run $mode 3 $test forward_and_backward
		done
		unset EMU_SHARED
		;;
	esac
	case $test in
	test_op_head_loss)
		for mode in asan race gcc; do
			run $mode 3 $test loss_and_gradient refuses_targets not_finite_stays
		done
		;;
	test_op_linear)
		# its work is cuBLAS', whatever the environment wants of float32
		export NVIDIA_TF32_OVERRIDE=1
		run fast 0 "$test"
		unset NVIDIA_TF32_OVERRIDE
		run asan 3 $test
		run gcc 3 $test
		run race 3 $test backward_by_differences same_bits_twice
		;;
	*)
		run fast 0 "$test"
		run fast 1 "$test"
		run asan 3 "$test"
		run race 3 "$test"
		run gcc 3 "$test"
		;;
	esac
done

# A call that fails is never a success: the n-th of each class, in programs that are quick. A launch
# that fails later, too: what comes after it has to wait for it. The trainer's: test_failing.sh.
while read -r test case; do
	for class in launch malloc copy set sync gemm late; do
		for n in 1 2 3 5 8; do
			fail=$class:$n
			[ $class != late ] || fail=launch:$n:719:late
			EMU_GUARD=0 EMU_FAIL=$fail timeout 60 "$build/fast/$test" "$case" >"$log" 2>&1
			code=$?
			if [ $code -eq 0 ] && grep -qa "^EMU_FAIL: " "$log"; then
				failed=$((failed + 1))
				echo "the failure of $class number $n in $test was not seen"
			else
				passed=$((passed + 1))
			fi
		done
	done
done <<'CASES'
test_op_rows embed
test_op_lora same_bits_twice
test_op_linear backward_by_differences
test_op_head_loss refuses_targets
test_op_reduce first_nonfinite
test_op_attention packed_is_alone
CASES

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
