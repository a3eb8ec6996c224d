#!/bin/sh
# make golden DIR=folder: runs each golden program over the folder of its name below DIR (models/,
# tokenizers/, templates/, masks/), or over DIR itself where its files are those of one, and adds up.
# BACKEND: cpu, cuda-emu (the emulated CUDA kernels) or cuda (on a GPU), which matter to models/ alone.
# Usage: tests/golden.sh BUILD DIR [BACKEND]
set -u
build=$1 dir=$2 backend=${3:-cpu}
case $backend in
cpu) models=$build/tests/golden_models ;;
cuda-emu) models=$build/cuda-emu/fast/golden_models ;;
cuda) models=$build/cuda/golden_models ;;
*)
	echo "golden: BACKEND is cpu, cuda-emu or cuda, not $backend" >&2
	exit 2
	;;
esac
# The emulation's own checks are those of its tests.
export EMU_GUARD=0
passed=0 failed=0 ran=0

check() {
	what=$1 folder=$2 program=$build/tests/golden_$1
	[ "$what" != models ] || program=$models
	[ -x "$program" ] && [ -d "$folder" ] || return 0
	ran=1
	log=$(mktemp)
	"$program" "$folder" | tee "$log" | grep -vE '^[0-9]+ passed, [0-9]+ failed$'
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
[ "$backend" = cpu ] || kinds=models
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
