#!/bin/sh
# A session of a GPU over the emulated worker. Prints `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
exec python3 tests/cuda-emu/session.py
