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

# Are the files of folder $2 those of golden cases of kind $1?
holds() {
	case $1 in
	masks) [ -f "$2/offsets.jsonl" ] || grep -qs '"maximum_datum_tokens"' "$2/cases.jsonl" ;;
	templates) [ -f "$2/jinja_features.jsonl" ] || [ -f "$2/prefix.jsonl" ] || grep -qs '"add_generation_prompt"' "$2/cases.jsonl" ;;
	models) [ -f "$2/case.json" ] || ls "$2"/*/case.json >/dev/null 2>&1 ;;
	tokenizers) ls "$2"/*/cases.jsonl >/dev/null 2>&1 ;;
	esac
}

kinds='models tokenizers templates masks'
for what in $kinds; do
	holds "$what" "$dir/$what" && check "$what" "$dir/$what"
done
# DIR itself may be such a folder: what is in it tells which.
if [ "$ran" -eq 0 ]; then
	for what in $kinds; do
		holds "$what" "$dir" && [ "$ran" -eq 0 ] && check "$what" "$dir"
	done
fi
if [ "$ran" -eq 0 ]; then
	echo "golden: $dir holds no golden cases: no models/, tokenizers/, templates/ or masks/" >&2
	failed=1
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
