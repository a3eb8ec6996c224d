#!/bin/sh
# Runs every test and adds up. Each is a program that ends with a line `N passed, N failed`: one that
# does not, or exits otherwise than that line says, counts as one failure more.
# Usage: tests/run.sh BUILD [part...]: checks unit golden cuda http (default: all)
set -u
build=$1
shift
[ $# -gt 0 ] || set -- checks unit golden cuda http
passed=0 failed=0 broken=
log=$build/test-logs
mkdir -p "$log/checks" "$log/unit" "$log/golden" "$log/cuda" "$log/http"
STEPD_BUILD=$build
export STEPD_BUILD
# Threads that wait sleep soon: tests share their machine.
export GOMP_SPINCOUNT=20000

run() {
	name=$1
	shift
	start=$(date +%s)
	timeout "${STEPD_TEST_TIMEOUT:-900}" "$@" >"$log/$name.log" 2>&1 </dev/null
	code=$?
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log/$name.log" | tail -n 1)
	p=${line%% passed*}
	f=${line#*, }
	f=${f%% failed*}
	if [ -z "$line" ]; then
		p=0 f=1
	elif [ "$code" -ne 0 ] && [ "$f" -eq 0 ]; then
		f=1
	fi
	passed=$((passed + p)) failed=$((failed + f))
	printf '%-32s %6d passed %4d failed %4d s\n' "$name" "$p" "$f" $(($(date +%s) - start))
	grep -a '^skipped: ' "$log/$name.log" | sed 's/^/    /'
	if [ "$f" -ne 0 ]; then
		broken="$broken $name"
		grep -a '^failed: ' "$log/$name.log" | sort -u | sed 's/^/    /'
		tail -n 25 "$log/$name.log" | sed 's/^/    /'
		kept=$log/failed/$(date +%Y%m%d-%H%M%S)-$$-$(echo "$name" | tr / -).log
		mkdir -p "$log/failed"
		cp "$log/$name.log" "$kept"
		echo "    the whole of it: $kept"
	fi
}

for part; do
	case $part in
	checks)
		for t in tests/checks/*.sh; do
			run "checks/$(basename "$t" .sh)" sh "$t"
		done
		;;
	unit)
		for t in "$build"/tests/test_*; do
			[ -x "$t" ] && run "unit/${t##*/test_}" "$t"
		done
		;;
	golden)
		for t in "$build"/tests/golden_*; do
			what=${t##*/golden_}
			[ -x "$t" ] && run "golden/$what" "$t" "tests/data/golden/$what"
		done
		;;
	cuda)
		for t in tests/cuda-emu/test_*.sh; do
			run "cuda/$(basename "$t" .sh)" sh "$t"
		done
		;;
	http)
		rm -rf "$build/fault-table"
		for t in tests/http/*.sh; do
			[ -e "$t" ] && run "http/$(basename "$t" .sh)" sh "$t"
		done
		for t in tests/http/test_*.py; do
			[ -e "$t" ] && run "http/$(basename "$t" .py)" python3 "$t"
		done
		run http/fault_table python3 tests/http/fault_table.py
		;;
	*)
		echo "run.sh: no part named $part" >&2
		exit 2
		;;
	esac
done
[ -z "$broken" ] || echo "failed:$broken"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
