#!/bin/sh
# The launches of a step are those that the roofline counts. Prints `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
EMU_GUARD=0 exec "${STEPD_BUILD:-build}/cuda-emu/fast/launches"
