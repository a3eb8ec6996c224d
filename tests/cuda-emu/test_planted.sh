#!/bin/sh
# The emulation catches what it is there for: each planted bug, in each build that can see it, by the
# words it is caught with; and the same kernels without their bugs are right in all of them.
# Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}/cuda-emu
passed=0 failed=0
log=$build/planted.log
export EMU_ARCH=86 EMU_RESOURCES=tests/cuda-emu/planted/resources.txt

ok() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "$2"
		tail -n 3 "$log"
	fi
}

for mode in fast asan race gcc; do
	for seed in 0 1 2 3 4 5; do
		EMU_SEED=$seed timeout 20 "$build/$mode/planted" right >"$log" 2>&1
		ok $? "$mode: a right kernel is called wrong with seed $seed"
	done
done

# bug, then what has to be in the output of each build; - where that build is blind to it
while IFS='|' read -r bug fast asan race gcc; do
	for mode in fast asan race gcc; do
		case $mode in
		fast) want=$fast ;;
		asan) want=$asan ;;
		race) want=$race ;;
		gcc) want=$gcc ;;
		esac
		[ "$want" != - ] || continue
		EMU_SEED=2 timeout 20 sh -c "$build/$mode/planted $bug" >"$log" 2>&1
		code=$?
		[ $code -ne 0 ] && { [ "$want" = dies ] || grep -qE "$want" "$log"; }
		ok $? "$mode: $bug is not caught as '$want' (exit $code)"
	done
done <<'TABLE'
block_sum|[0-9]+ wrong|[0-9]+ wrong|RACE CHECK: uninitialised read|[0-9]+ wrong
refill|[0-9]+ wrong|[0-9]+ wrong|RACE CHECK: read after write|[0-9]+ wrong
read_past|-|use-after-poison|RACE CHECK: access outside any allocation|-
dynamic_past|-|use-after-poison|RACE CHECK: access past the dynamic|-
static_past|-|global-buffer-overflow|-|-
unwritten|1 wrong|1 wrong|1 wrong|1 wrong
unwritten_shared|64 wrong|64 wrong|RACE CHECK: uninitialised read|-
unwritten_dynamic|64 wrong|64 wrong|RACE CHECK: uninitialised read|64 wrong
unwritten_memory|64 wrong|64 wrong|RACE CHECK: uninitialised read|64 wrong
add_across_blocks|-|-|RACE CHECK: write after write|-
shared_add|-|-|RACE CHECK: write after write|-
warp_exchange|[0-9]+ wrong|[0-9]+ wrong|RACE CHECK: uninitialised read|[0-9]+ wrong
pipe_short_wait|[0-9]+ wrong|[0-9]+ wrong|RACE CHECK: access to what cp.async|[0-9]+ wrong
pipe_no_commit|[0-9]+ wrong|[0-9]+ wrong|RACE CHECK: access to what cp.async|[0-9]+ wrong
pipe_no_barrier|[0-9]+ wrong|[0-9]+ wrong|RACE CHECK: uninitialised read|[0-9]+ wrong
pipe_writes_again|-|-|RACE CHECK: access to what cp.async|-
refill_async|[0-9]+ wrong|[0-9]+ wrong|RACE CHECK: read after write|[0-9]+ wrong
warp_exchange_half|-|-|RACE CHECK: read after write|-
other_masks|do not match|do not match|do not match|do not match
misaligned_async|no multiple of 16|no multiple of 16|no multiple of 16|no multiple of 16
async_to_device|not in shared memory|not in shared memory|not in shared memory|not in shared memory
misaligned_rows|no multiple of 16|no multiple of 16|no multiple of 16|no multiple of 16
rows_of_device|not in shared memory|not in shared memory|not in shared memory|not in shared memory
vector_of_shared|is not device memory|is not device memory|is not device memory|is not device memory
product_of_some|mma.sync with lanes|mma.sync with lanes|mma.sync with lanes|mma.sync with lanes
products_of_branches|do not match|do not match|do not match|do not match
not_in_mask|not in mask|not in mask|not in mask|not in mask
shuffle_from_nowhere|32 wrong|32 wrong|32 wrong|32 wrong
divergent_barrier|divergent __syncthreads|divergent __syncthreads|divergent __syncthreads|divergent __syncthreads
return_before_barrier|threads of the block returned|threads of the block returned|threads of the block returned|threads of the block returned
shuffle_and_barrier|deadlock|deadlock|deadlock|deadlock
misaligned|no multiple of 16|no multiple of 16|no multiple of 16|no multiple of 16
bank_conflict|meet in their banks|meet in their banks|meet in their banks|meet in their banks
freed|64 wrong|use-after-poison|RACE CHECK: access outside any allocation|64 wrong
host_pointer|is not device memory|is not device memory|is not device memory|is not device memory
host_writes|dies|AddressSanitizer|dies|dies
workspace_unaligned|without a workspace|without a workspace|without a workspace|without a workspace
workspace_dropped|without a workspace|without a workspace|without a workspace|without a workspace
pageable_early|64 wrong|64 wrong|64 wrong|64 wrong
pinned_early|64 wrong|64 wrong|64 wrong|64 wrong
pinned_rewritten|while a copy read it|while a copy read it|while a copy read it|while a copy read it
pinned_freed|while a copy may still|while a copy may still|while a copy may still|while a copy may still
too_many_rows|invalid configuration|invalid configuration|invalid configuration|invalid configuration
too_deep|invalid configuration|invalid configuration|invalid configuration|invalid configuration
no_blocks|invalid configuration|invalid configuration|invalid configuration|invalid configuration
too_many_registers|too many resources|too many resources|too many resources|too many resources
static_and_dynamic|invalid argument|invalid argument|invalid argument|invalid argument
more_than_a_block_has|invalid argument|invalid argument|invalid argument|invalid argument
too_much_shared|invalid argument|invalid argument|invalid argument|invalid argument
too_many_threads|invalid configuration|invalid configuration|invalid configuration|invalid configuration
misaligned_copy|-|-|-|misaligned address
shift_past|-|shift exponent|-|shift exponent
graph_argument|63 wrong|63 wrong|63 wrong|63 wrong
graph_not_launched|64 wrong|64 wrong|64 wrong|64 wrong
graph_other_stream|63 wrong|63 wrong|RACE CHECK: uninitialised read|63 wrong
graph_host_memory|63 wrong|63 wrong|63 wrong|63 wrong
graph_freed|64 wrong|use-after-poison|RACE CHECK: access outside any allocation|64 wrong
graph_factor|63 wrong|63 wrong|63 wrong|63 wrong
graph_product_freed|outside its allocation|outside its allocation|outside its allocation|outside its allocation
graph_sync|previous error during capture|previous error during capture|previous error during capture|previous error during capture
graph_malloc|previous error during capture|previous error during capture|previous error during capture|previous error during capture
graph_free|previous error during capture|previous error during capture|previous error during capture|previous error during capture
graph_host_malloc|previous error during capture|previous error during capture|previous error during capture|previous error during capture
graph_pageable|previous error during capture|previous error during capture|previous error during capture|previous error during capture
graph_event|previous error during capture|previous error during capture|previous error during capture|previous error during capture
TABLE

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
