#!/bin/sh
# nvcc compiles every kernel for every architecture without a warning, none spills, registers and
# shared memory are those of the kept table, and so are the tensor-core loops' instructions.
# `test_nvcc.sh --write` keeps them anew. Another nvcc than the tables' is held to "no spills" alone;
# where there is none, that is said and nothing is tested.
# Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}
nvcc=${NVCC:-${CUDA:-/usr/local/cuda}/bin/nvcc}
now=$build/cuda
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
version=$("$nvcc" --version | sed -n 's/^Cuda compilation tools, //p')
printf '%s\n' "$version" "kernel arch registers shared-bytes stack-bytes" >"$now/resources.txt"
python3 tests/cuda-emu/ptxas.py "$build/cuda/kernels" >>"$now/resources.txt"
ok $? "a kernel spills"
printf '%s\n' "$version" "kernel arch instructions HMMA LDSM LDGSTS MUFU HMMA-share" >"$now/loops.txt"
python3 tests/cuda-emu/loops.py "$build"/cuda/kernels/flash*.cu.o >>"$now/loops.txt"
ok $? "no loop of tensor cores is found"
for table in resources.txt loops.txt; do
	kept=tests/cuda-emu/$table
	[ "${1-}" != --write ] || cp "$now/$table" $kept
	if [ "$(head -n 1 $kept)" = "$version" ]; then
		diff -u $kept "$now/$table"
		ok $? "the kernels are not those of $kept (test_nvcc.sh --write keeps them)"
	else
		echo "skipped: $kept is of another nvcc"
	fi
done

# What memory bounds moves 16 bytes a thread and access: each of these kernels has such accesses, for
# every type that it is there for. One instruction of PTX is one of the machine here.
while read -r file kernels; do
	ptx=$build/cuda/$file.ptx
	"$nvcc" -std=c++17 -O3 -I. -arch=compute_80 -ptx -o "$ptx" "kernels/$file.cu" >"$build/nvcc.log" 2>&1
	narrow=$(awk -v list="$kernels" '
		/\.entry / { entry = $0; sub(/.*\.entry /, "", entry); sub(/\(.*/, "", entry); found[entry] = 0 }
		/(ld|st)\.global.*\.v4\.b32/ { found[entry]++ }
		END {
			for (n = split(list, kernel, " "); n > 0; n--) {
				any = 0
				for (entry in found)
					if (entry ~ "^_Z[0-9]+" kernel[n] "[^a-z]") {
						any = 1
						if (found[entry] == 0) print entry
					}
				if (!any) print kernel[n]
			}
		}' "$ptx")
	ok $((${#narrow} > 0)) "kernels/$file.cu: no access of 16 bytes in $narrow"
done <<'KERNELS'
adamw adamw_kernel
dropout dropout_kernel
elementwise round_kernel add_kernel
gemm convert_kernel
head_loss softmax_kernel gradient_kernel
linear bias_kernel
lora_parts split_kernel sum_kernel join_kernel
reduce sum_squares_kernel first_nonfinite_kernel
rmsnorm rmsnorm_rows_kernel rmsnorm_backward_rows_kernel
rope rope_kernel
rows embed_kernel gather_kernel scatter_kernel
swiglu swiglu_kernel swiglu_backward_kernel
KERNELS
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
