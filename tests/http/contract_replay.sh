#!/bin/sh
# The recorded exchanges of the trainer contract, byte for byte, against a stepd with a tiny model.
# GPU_WORKER= a worker for GPUs, whose sessions are to be on one. More arguments go to replay.py
# (--only, --verbose).
set -eu
. tests/http/start.inc
data=tests/data/golden/contract
if [ -z "${GPU_WORKER:-}" ]; then
	start_stepd
else # of a bundle, which has no worker for the CPU
	start_stepd STEPD_WORKER=/bin/true STEPD_WORKER_CUDA="$GPU_WORKER" STEPD_DEVICES=auto STEPD_READY_TIMEOUT=60
fi
python3 "$data/replay.py" --base-url "$url" --token "$token" --model "$model" --strict \
	--store-cert "$cert" --store-key "$key" "$@" "$data/cases.jsonl"
