#!/bin/sh
# CUDA calls of a whole trainer that fail one by one, for a while; all of them: make fail-cuda.
# Prints `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
exec "${STEPD_BUILD:-build}/cuda-emu/fast/failing" "${1:-16}" "${2:-1}"
