#!/bin/sh
# The numbers and functions of the emulation's headers are those of the toolkit's, where there is one.
# Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}/cuda-emu
include=${CUDA:-/usr/local/cuda}/include
log=$build/headers.log

if [ ! -f "$include/cublas_v2.h" ]; then
	echo "skipped: no headers of CUDA in $include"
	echo "0 passed, 0 failed"
	exit 0
fi
mkdir -p "$build"
python3 tests/cuda-emu/headers.py tests/cuda-emu/include/cuda_runtime.h tests/cuda-emu/include/cublas_v2.h \
	>"$build/headers.cpp"
checks=$(grep -cE '^static_assert|^[a-z].*\(' "$build/headers.cpp")
if "${CXX:-c++}" -std=c++17 -fsyntax-only -I"$include" "$build/headers.cpp" >"$log" 2>&1 && [ "$checks" -gt 80 ]; then
	echo "$checks passed, 0 failed"
else
	echo "the emulation's headers and those in $include differ ($checks lines):"
	grep error "$log" | head -n 10
	echo "0 passed, 1 failed"
	exit 1
fi
