#!/bin/sh
# A session on an emulated GPU beside a stepd that found it: probe, sandbox, restart, memory.
# Prints `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
GPU_WORKER=${STEPD_BUILD:-build}/cuda-emu/served/stepd-worker exec python3 tests/http/gpu_session.py
