#!/bin/sh
# The recorded exchanges of the trainer contract, byte for byte, against a stepd with a tiny model.
# More arguments go to replay.py (--only, --verbose).
set -eu
. tests/http/start.inc
data=tests/data/golden/contract
start_stepd
python3 "$data/replay.py" --base-url "$url" --token "$token" --model "$model" --strict \
	--store-cert "$cert" --store-key "$key" "$@" "$data/cases.jsonl"
