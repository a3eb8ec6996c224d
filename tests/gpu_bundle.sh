#!/bin/sh
# Puts what tests/check_gpu.sh runs into the folder OUT and into OUT.tar.gz: programs, scripts, data, and the shared
# libraries that the programs need but what glibc, the compiler's run time, the driver and cuBLAS (hundreds of MB) give.
# There, without a compiler and without make: ./check-gpu.sh. Usage: tests/gpu_bundle.sh BUILD CUDA OUT
set -eu
build=$1 cuda=$2 out=$3
tests=$(cd "$(dirname "$0")" && pwd)
rm -rf "$out" "$out.tar.gz"
mkdir -p "$out/build/cuda" "$out/build/tests" "$out/lib" "$out/tests/bench" "$out/tests/data/golden"

# program PATH FOLDER [NAME]
program() {
	cp -L "$1" "$out/$2/${3:-$(basename "$1")}"
	strip -S "$out/$2/${3:-$(basename "$1")}"
}
program "$build/stepctl" build
program "$build/stepd" build
program "$build/tests/refused" build/tests
for p in "$cuda"/test_* "$cuda"/golden_models "$cuda"/bench_ops "$cuda"/bench_step "$cuda"/stepd-worker; do
	[ ! -x "$p" ] || program "$p" build/cuda
done
# For certificates of tests, where there is no other.
program "$(command -v openssl)" lib openssl

cp "$tests/check_gpu.sh" "$tests/gpu_libraries.sh" "$tests/gpu_train.sh" "$out/tests"
cp "$tests/bench/peer_step.py" "$out/tests/bench"
mkdir "$out/tests/http"
cp "$tests"/http/*.py "$tests"/http/*.sh "$tests"/http/*.inc "$out/tests/http"
cp -r "$tests/data/models" "$out/tests/data"
cp -r "$tests/data/golden/models" "$tests/data/golden/contract" "$out/tests/data/golden"
find "$out" -name __pycache__ -exec rm -rf {} +

# Every library of every program: what each loads is told by the loader.
for p in "$out"/build/* "$out"/build/*/* "$out/lib/openssl"; do
	[ ! -f "$p" ] || ldd "$p" 2>/dev/null
done | sed -n 's/^[[:space:]]*\([^ ]*\) => \([^ ]*\).*/\1 \2/p' | sort -u | while read -r name path; do
	case $name in
	libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.* | libutil.so.*) continue ;;
	libcublas* | libcuda.so.*) continue ;;
	# every machine has them; those of this one may need its glibc
	libstdc++.so.* | libgcc_s.so.*) continue ;;
	esac
	[ "$path" != not ] || {
		echo "gpu_bundle.sh: no $name" >&2
		exit 1
	}
	cp -L "$path" "$out/lib/$name"
done
cat >"$out/check-gpu.sh" <<'EOF'
#!/bin/sh
# Proves the CUDA backend on the device at hand and times it: PART=, SECONDS_IN_ALL= and more in tests/check_gpu.sh.
cd "$(dirname "$0")" || exit 1
exec sh tests/check_gpu.sh build build/cuda
EOF
chmod +x "$out/check-gpu.sh"
glibc=$(find "$out/build" "$out/lib" -type f -exec objdump -T {} + 2>/dev/null | grep -oE 'GLIBC_2\.[0-9]+' | sort -Vu | tail -n 1)
tar -C "$(dirname "$out")" -cf - "$(basename "$out")" | gzip -9 >"$out.tar.gz"
echo "$out.tar.gz: $(($(wc -c <"$out.tar.gz") >> 20)) MiB, for ${glibc:-no GLIBC} and newer; there: tar xzf, then $(basename "$out")/check-gpu.sh"
