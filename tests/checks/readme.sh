#!/bin/sh
# The README's table of settings is what stepd says of itself. `readme.sh --write` puts it there.
# Prints `N passed, N failed`.
set -eu
build=${STEPD_BUILD:-build}
first='<!-- settings: stepd --help --markdown; compared by tests/checks/readme.sh -->'
last='<!-- end of settings -->'
want=$(mktemp)
trap 'rm -f "$want"' EXIT
"$build/stepd" --help --markdown >"$want"
if [ "${1:-}" = --write ]; then
	sed -i -e "/^$(printf %s "$first" | sed 's,/,\\/,g')\$/,/^$last\$/{/^<!--/!d}" README.md
	sed -i -e "/^$(printf %s "$first" | sed 's,/,\\/,g')\$/r $want" README.md
fi
if sed -n "/^$(printf %s "$first" | sed 's,/,\\/,g')\$/,/^$last\$/p" README.md | sed '1d;$d' |
	diff -u --label README.md --label 'stepd --help --markdown' - "$want"; then
	echo "1 passed, 0 failed"
else
	echo "tests/checks/readme.sh --write puts the table right"
	echo "0 passed, 1 failed"
	exit 1
fi
