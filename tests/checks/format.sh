#!/bin/sh
# Every source is as .clang-format says, and both compilers build without a warning.
set -u
passed=0 failed=0
ok() {
	if "$@" >/dev/null 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		"$@" 2>&1 | tail -n 15
	fi
}
ok make --no-print-directory format-check
ok make --no-print-directory -j2 CI=1 CC=clang BUILD="${STEPD_BUILD:-build}/clang" all unit
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
