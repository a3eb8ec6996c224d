#!/bin/sh
# Whatever is built first, and however many compilers run: the folder of what a recipe writes is there, for the recipe
# makes it, or reads something below it. Nothing is built; the CUDA objects lie elsewhere, as those of a bundle do.
# Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

MAKEFLAGS='' make -n V=1 BUILD="$folder/b" CUDA_BUILD="$folder/c" BUNDLED=1 all unit cuda-emu check-gpu-programs >"$folder/recipes" 2>&1 || {
	tail -n 5 "$folder/recipes"
	echo "0 passed, 1 failed"
	exit 1
}
sed -e ':more' -e '/\\$/{N' -e 's/\\\n//' -e 'b more' -e '}' "$folder/recipes" | awk -v top="$folder/" '
{
	out = ""
	for (i = 1; i < NF; i++)
		if ($i == "-o" && index($(i + 1), top) == 1)
			out = $(i + 1)
	if (out != "") {
		within = out
		sub("[^/]*$", "", within)
		there = last == "mkdir -p " substr(within, 1, length(within) - 1)
		for (i = 1; i <= NF && !there; i++)
			there = $i != out && index($i, within) == 1
		if (there)
			passed++
		else {
			failed++
			print "nobody makes the folder of " substr(out, length(top) + 1)
		}
	}
	last = $0
}
END {
	if (passed < 100) {
		failed++
		print "only " passed + 0 " recipes were seen"
	}
	print passed + 0 " passed, " failed + 0 " failed"
	exit failed > 0
}'
