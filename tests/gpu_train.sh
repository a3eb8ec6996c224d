#!/bin/sh
# A training run through HTTPS on the GPU at hand, by stepctl and a stepd of its own: no Python. Prints
# `N passed, N failed`.
# Usage: tests/gpu_train.sh BUILD WORKER: the worker program for GPUs
set -u
build=$1
# Settings of another stepd, and of the tests, are not this one's.
for name in $(env | sed -n 's/^\(STEPD_[A-Z_]*\)=.*/\1/p'); do
	[ "$name" = STEPD_SANDBOX ] || unset "$name"
done
STEPD_WORKER_CUDA=$(realpath "$2")
export STEPD_WORKER_CUDA STEPD_DEVICES=auto STEPD_READY_TIMEOUT=60
# A bundle has no worker for the CPU.
[ -x "$build/stepd-worker" ] || export STEPD_WORKER=/bin/true
passed=0 failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM
model=$(dirname "$0")/data/models/tiny

ok() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "failed: $2"
		tail -n 10 "$folder"/said "$folder"/*/stepd.log 2>/dev/null
	fi
}

# Trains into $1 with more options; each step's loss is in $1.losses.
train() {
	out=$folder/$1
	shift
	"$build/stepctl" train --data "$folder/rows" --model "$model" --out "$out" --batch-size 2 --lr 1e-3 --epochs 2 \
		"$@" >"$folder/said" 2>&1
	ok $? "training into $out"
	sed -n 's/^step \([0-9]*\) .*\(loss [0-9.]*\).*/\1 \2/p' "$folder/said" >>"$out.losses"
}

for i in 1 2 3 4 5 6; do
	echo "{\"prompt\": \"What is $i plus $i?\", \"completion\": \"$((i + i))\"}"
done >"$folder/rows"

train whole
# "session ...: worker N on DEVICE": not the CPU.
sed -n 's/.*: worker [0-9]* on \([^ ,]*\).*/\1/p' "$folder/whole/stepd.log" >"$folder/devices"
grep -q . "$folder/devices" && ! grep -qx cpu "$folder/devices"
ok $? "it was not on the GPU"
sed -n 's/.*sandbox of worker [0-9]*: /sandbox: /p' "$folder/whole/stepd.log"
[ "$(wc -l <"$folder/whole.losses")" -eq 6 ]
ok $? "six steps"
sort -k3 -n "$folder/whole.losses" | head -n 1 | grep -qv '^1 '
ok $? "the first loss is the least"

train again
cmp "$folder/whole/state.safetensors" "$folder/again/state.safetensors"
ok $? "the same run has other bits"

# 3 + 3 = 6
train half --max-steps 3
cp "$folder/half/state.safetensors" "$folder/at3"
train half --resume "$folder/at3"
cmp "$folder/whole/state.safetensors" "$folder/half/state.safetensors" && cmp "$folder/whole.losses" "$folder/half.losses"
ok $? "3 + 3 steps are not 6"

"$build/stepctl" verify "$folder/whole" >"$folder/said" 2>&1
ok $? "verify"
"$build/stepctl" generate --model "$model" --state "$folder/whole/state.safetensors" --prompt "What is" --tokens 4 \
	>"$folder/said" 2>&1
ok $? "generate"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
