#!/bin/sh
# Whole models over the emulated CUDA kernels: logits, loss, gradients and ten steps of AdamW of the
# golden cases, float32 and bfloat16, against what PyTorch, Transformers and PEFT computed, within the
# CPU's own limits. Without smollm2, for which the emulation needs some
# ten minutes: make golden DIR=tests/data/golden/models BACKEND=cuda-emu has it too. Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0
for case in llama_gqa llama_bias llama3_rope; do
	line=$(sh tests/golden.sh "${STEPD_BUILD:-build}" "tests/data/golden/models/$case" cuda-emu | tee /dev/stderr | tail -n 1)
	f=${line#*, }
	case $line in
	*' passed, '*) passed=$((passed + ${line%% *})) failed=$((failed + ${f%% *})) ;;
	*) failed=$((failed + 1)) ;;
	esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
