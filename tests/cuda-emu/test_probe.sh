#!/bin/sh
# `stepd-worker --probe`: a device that computes, one whose product fails, one too few, none at all.
# Prints `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.."
build=${STEPD_BUILD:-build}
worker=$build/cuda-emu/served/stepd-worker
passed=0 failed=0

# what, expression over the answer `a`, command...
holds() {
	what=$1 expression=$2
	shift 2
	if "$@" 2>/dev/null | python3 -c "import json, sys; a = json.load(sys.stdin); sys.exit(not ($expression))"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "$what: $("$@" 2>&1)"
	fi
}

uuid=GPU-00112233-4455-6677-8899-aabbccddeeff
holds "a device" "a['backend'] == 'cuda' and len(a['devices']) == 1 and a['devices'][0]['verified'] is True \
	and a['devices'][0]['error'] is None and a['devices'][0]['uuid'] == '$uuid' \
	and a['devices'][0]['compute_capability'] == '8.0' and a['devices'][0]['memory_bytes'] == 32 << 30 \
	and 0 < a['devices'][0]['memory_free_bytes'] <= 32 << 30" "$worker" --probe
holds "the sandbox" "a['sandbox'] == 'off'" env STEPD_SANDBOX=off "$worker" --probe
holds "the sandbox" "a['sandbox'].startswith(('network', 'capabilities')) and 'system calls' in a['sandbox']" "$worker" --probe
holds "a device that a session has" "a['devices'][0]['held'] is True and a['devices'][0]['verified'] is False \
	and a['devices'][0]['memory_free_bytes'] == 0" env STEPD_GPUS_HELD="GPU-x,$uuid" EMU_FAIL=malloc:1 "$worker" --probe
# A driver that wants a file which the sandbox does not know: it fails inside, and what it wanted has a name.
holds "a driver that wants more" "a['devices'][0]['verified'] is False and 'OS call' in a['devices'][0]['error']" \
	env EMU_OPEN=/etc/passwd "$worker" --probe
holds "outside of the sandbox" "a['devices'][0]['verified'] is True" \
	env EMU_OPEN=/etc/passwd STEPD_SANDBOX=off "$worker" --probe
if EMU_OPEN=/etc/passwd "$build/tests/refused" "$worker" --probe 2>&1 |
	grep -q '^refused: open.* /etc/passwd: Permission denied$'; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "refused does not tell what was: $(EMU_OPEN=/etc/passwd "$build/tests/refused" "$worker" --probe 2>&1)"
fi
for class in launch malloc copy set stream sync error blas gemm; do
	holds "a failing $class" "a['devices'][0]['verified'] is False and a['devices'][0]['error']" \
		env EMU_FAIL=$class:1 "$worker" --probe
done
holds "a failing graph" "a['devices'][0]['verified'] is False and 'cudaGraphLaunch' in a['devices'][0]['error']" \
	env EMU_FAIL=graph:1 "$worker" --probe
holds "a driver without graphs" "a['devices'][0]['verified'] is True" env EMU_FAIL=capture:1 "$worker" --probe
holds "graphs that are not to be" "a['devices'][0]['verified'] is True" \
	env STEPD_CUDA_GRAPHS=off EMU_FAIL=graph:1 "$worker" --probe
holds "a driver that fails" "a['devices'] == [] and 'unavailable' in a['error']" \
	env EMU_FAIL=device:1 "$worker" --probe
holds "a kernel that fails later" "'unspecified' in a['devices'][0]['error']" \
	env EMU_FAIL=launch:1:719:late "$worker" --probe
holds "a device that is not there" "[d['verified'] for d in a['devices']] == [True, False]" \
	env EMU_DEVICES=2 "$worker" --probe
holds "no device" "a['devices'] == [] and 'no CUDA-capable device' in a['error']" \
	env EMU_DEVICES=0 "$worker" --probe
holds "the CPU's worker" "a == {'backend': 'cpu', 'sandbox': None, 'error': None, 'devices': [],
	'driver_loaded': a['driver_loaded']}" "$build/stepd-worker" --probe
[ ! -x "$build/stepd-worker-cuda" ] ||
	holds "the worker for real devices" "a['backend'] == 'cuda' and (a['devices'] or a['error'])" \
		"$build/stepd-worker-cuda" --probe

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
