#!/bin/sh
# A whole model over the emulated CUDA kernels: logits, loss, gradients and ten steps of AdamW of a
# golden case, float32 and bfloat16, against what PyTorch, Transformers and PEFT computed, within the
# CPU's own limits. Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
for case in llama_gqa; do
	EMU_GUARD=0 timeout 600 "${STEPD_BUILD:-build}/cuda-emu/fast/golden_models" "tests/data/golden/models/$case"
done
