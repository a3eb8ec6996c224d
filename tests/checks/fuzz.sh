#!/bin/sh
# Every fuzz target for a few seconds over its kept corpus: a minute in all. `make fuzz` gives them more.
exec make --no-print-directory fuzz SECONDS=4 BUILD="${STEPD_BUILD:-build}"
