#!/bin/sh
# Runs every fuzz target for a while over its kept corpus (tests/fuzz/corpus/NAME); what it finds on the
# way stays in BUILD/corpus/NAME. A crash prints its report and the file that repeats it.
# Usage: tests/fuzz.sh BUILD SECONDS
set -u
build=$1 seconds=$2
passed=0 failed=0
for target in "$build"/tests/fuzz_*; do
	name=${target##*/fuzz_}
	case $name in *.*) continue ;; esac
	found=$build/corpus/$name
	mkdir -p "$found" "tests/fuzz/corpus/$name"
	if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
		-artifact_prefix="$build/$name-" "$found" "tests/fuzz/corpus/$name" \
		>"$build/$name.log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		tail -n 40 "$build/$name.log"
	fi
	echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/$name.log") runs"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
