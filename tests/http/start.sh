# Sourced by the HTTP tests: makes a folder, a certificate for localhost and a tiny model, and starts
# stepd on a free port of the loopback. Sets $dir $url $token $model $cert $key, and stops stepd and
# removes the folder at exit. start_stepd may be given more NAME=value settings.
build=${STEPD_BUILD:-build}
dir=$(mktemp -d "${TMPDIR:-/tmp}/stepd-test-XXXXXX")
token=$(openssl rand -hex 16)
model=org/tiny
cert=$dir/cert.pem key=$dir/key.pem
stepd=

finish() {
	code=$?
	trap - EXIT INT TERM
	if [ -n "$stepd" ]; then
		kill "$stepd" 2>/dev/null
		wait "$stepd" 2>/dev/null || stopped=$?
		if [ "${stopped:-0}" -ne 0 ]; then
			echo "stepd ended with status $stopped"
			tail -n 20 "$dir/stepd.log"
			[ "$code" -ne 0 ] || code=1
		fi
	fi
	[ "$code" -eq 0 ] || tail -n 20 "$dir/stepd.log"
	rm -rf "$dir"
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

start_stepd() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
		-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
		-keyout "$key" -out "$cert" 2>/dev/null
	chmod 600 "$key"
	python3 tests/data/models/make_tiny.py "$dir/models/$model"
	env -i PATH="$PATH" HOME="$dir" TRAINER_TOKEN="$token" STEPD_LISTEN=127.0.0.1:0 STEPD_STATE_DIR="$dir/state" \
		STEPD_MODEL_DIR="$dir/models" STEPD_CA_FILE="$cert" \
		STEPD_EGRESS_ALLOW=localhost,127.0.0.1 STEPD_THREADS=2 \
		${ASAN_OPTIONS:+ASAN_OPTIONS="$ASAN_OPTIONS"} "$@" \
		"$build/stepd" >"$dir/stepd.log" 2>&1 </dev/null &
	stepd=$!
	url=
	for _ in $(seq 100); do
		url=$(grep -o 'http[s]*://127.0.0.1:[0-9]*' "$dir/stepd.log" | head -n 1)
		[ -z "$url" ] || break
		kill -0 "$stepd" 2>/dev/null || break
		sleep 0.1
	done
	if [ -z "$url" ]; then
		echo "stepd did not start"
		cat "$dir/stepd.log"
		exit 1
	fi
}
