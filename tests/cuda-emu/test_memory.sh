#!/bin/sh
# The plan of a session's memory against what is allocated on the emulated device, for several models,
# ranks, formats and recomputed layers. Prints `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
EMU_GUARD=0 exec "${STEPD_BUILD:-build}/cuda-emu/fast/test_memory_plan"
