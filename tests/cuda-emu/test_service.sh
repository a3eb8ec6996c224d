#!/bin/sh
# The recorded exchanges of the trainer contract against a stepd whose worker computes with the
# emulated CUDA kernels, in its sandbox as any worker. Prints `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
STEPD_BUILD=${STEPD_BUILD:-build}/cuda-emu/served exec sh tests/http/contract_replay.sh
