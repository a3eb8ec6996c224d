#!/bin/sh
# The recorded session of the real client: open, render, train, save, resume, load the adapter.
set -eu
. tests/http/start.inc
model=org/model
revision=0123456789abcdef0123456789abcdef01234567
mkdir -p "$dir/models/$model"
echo "$revision" >"$dir/models/$model/revision"
# With auto, two sessions may differ in their number format, and so in the last digits.
start_stepd STEPD_CPU_COMPUTE=f32
python3 tests/http/session_replay.py --base-url "$url" --token "$token" --store-cert "$cert" \
	--store-key "$key" tests/data/golden/contract/session.jsonl
