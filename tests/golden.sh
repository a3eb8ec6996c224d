#!/bin/sh
# make golden DIR=folder: runs each golden program over the folder of its name below DIR (models/,
# tokenizers/, templates/, masks/), or over DIR itself where its files are those of one, and adds up.
# Usage: tests/golden.sh BUILD DIR
set -u
build=$1 dir=$2
passed=0 failed=0 ran=0

check() {
	what=$1 folder=$2
	[ -x "$build/tests/golden_$what" ] && [ -d "$folder" ] || return 0
	ran=1
	log=$(mktemp)
	"$build/tests/golden_$what" "$folder" | tee "$log" | grep -vE '^[0-9]+ passed, [0-9]+ failed$'
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
	rm -f "$log"
	if [ -z "$line" ]; then
		echo "golden_$what did not finish"
		failed=$((failed + 1))
		return 0
	fi
	echo "$what: $line"
	p=${line%% passed*} f=${line#*, }
	passed=$((passed + p)) failed=$((failed + ${f%% failed*}))
}

for what in models tokenizers templates masks; do
	check "$what" "$dir/$what"
done
# DIR itself may be such a folder: what is in it tells which.
if [ "$ran" -eq 0 ]; then
	if [ -f "$dir/offsets.jsonl" ]; then
		check masks "$dir"
	elif [ -f "$dir/jinja_features.jsonl" ] || [ -f "$dir/prefix.jsonl" ]; then
		check templates "$dir"
	elif [ -f "$dir/case.json" ] || ls "$dir"/*/case.json >/dev/null 2>&1; then
		check models "$dir"
	elif ls "$dir"/*/cases.jsonl >/dev/null 2>&1; then
		check tokenizers "$dir"
	fi
fi
if [ "$ran" -eq 0 ]; then
	echo "golden: $dir holds no golden cases: no models/, tokenizers/, templates/ or masks/" >&2
	failed=1
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
