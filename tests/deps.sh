#!/bin/sh
# Installs those of the named Debian packages that are missing; says nothing if none is.
set -eu
missing=
for name; do
	dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing="$missing $name"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -eq 0 ]; then
	sudo=
elif command -v sudo >/dev/null; then
	sudo=sudo
else
	echo "deps: missing, and there is no sudo to install them with:$missing" >&2
	exit 1
fi
echo "installing:$missing" >&2
# shellcheck disable=SC2086 # the lists are split on purpose
{
	$sudo apt-get update -q
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
} >&2
