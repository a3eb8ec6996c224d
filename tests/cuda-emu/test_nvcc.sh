#!/bin/sh
# nvcc compiles every kernel for every architecture without a warning, none spills, and registers and
# shared memory are those of the kept table. `test_nvcc.sh --write` keeps them anew. Another nvcc than
# the table's is held to "no spills" alone; where there is none, that is said and nothing is tested.
# Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}
table=tests/cuda-emu/resources.txt
nvcc=${NVCC:-${CUDA:-/usr/local/cuda}/bin/nvcc}
now=$build/cuda/resources.txt
passed=0 failed=0

ok() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "$2"
	fi
}

if [ ! -x "$nvcc" ]; then
	echo "skipped: no nvcc at $nvcc, so the kernels were not compiled for a GPU"
	echo "0 passed, 0 failed"
	exit 0
fi
make --no-print-directory BUILD="$build" cuda >"$build/nvcc.log" 2>&1
ok $? "nvcc: $(tail -n 20 "$build/nvcc.log")"
{
	"$nvcc" --version | sed -n 's/^Cuda compilation tools, //p'
	echo "kernel arch registers shared-bytes stack-bytes"
} >"$now"
python3 tests/cuda-emu/ptxas.py "$build/cuda/kernels" >>"$now"
ok $? "a kernel spills"
[ "${1-}" != --write ] || cp "$now" $table
if [ "$(head -n 1 $table)" = "$(head -n 1 "$now")" ]; then
	diff -u $table "$now"
	ok $? "the kernels' resources are not those of $table (test_nvcc.sh --write keeps them)"
else
	echo "skipped: $table is of another nvcc"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
