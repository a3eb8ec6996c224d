#!/bin/sh
# The rooms keep to themselves: what each may include, and what neither program can name.
# Prints `N passed, N failed`.
set -u
build=${STEPD_BUILD:-build}
passed=0 failed=0

ok() {
	if [ -z "$2" ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s:\n%s\n' "$1" "$2"
	fi
}

# room, then the rooms its files may include
may() {
	room=$1
	shift
	allowed=$(printf '%s|' "$@")
	ok "$room/ includes what it may not" \
		"$(grep -rnE '^#include "' --include='*.[ch]' --include='*.cu' "$room" | grep -vE "\"(${allowed%|})/")"
}

may ipc ipc
may kernels kernels
may worker worker ipc kernels
may supervisor supervisor ipc

# no HTTP, TLS, store or transfer in the worker; no maths in stepd
ok "a header of the network in worker/, kernels/ or ipc/" \
	"$(grep -rnE '^#include <(event2?|curl|lmdb|openssl|http_parser)' --include='*.[ch]' worker kernels ipc)"
ok "a header of the maths in supervisor/ or ipc/" \
	"$(grep -rnE '^#include <(dnnl|oneapi|omp|cblas|cuda|cublas)' --include='*.[ch]' supervisor ipc)"
symbols() {
	nm -D --undefined-only "$1" 2>/dev/null
	nm "$1" 2>/dev/null
}
ok "stepd-worker names HTTP, LMDB, curl, TLS or sockets" \
	"$(symbols "$build/stepd-worker" | grep -E ' (evhttp_|bufferevent_|http_parser_|mdb_|curl_|SSL_|connect@|bind@|listen@|getaddrinfo)')"
ok "stepd names a tensor" "$(symbols "$build/stepd" | grep -E ' (op_|dnnl_|cublas|cuda[A-Z]|model_files_|trainer_)')"
ok "stepctl names a tensor" "$(symbols "$build/stepctl" | grep -E ' (op_|dnnl_|trainer_)')"
ok "a file at the top level that does not belong there" \
	"$(git ls-files | grep -v / | grep -vE '^(\.[^/]*|Makefile|README\.md|LICENSE)$')"
ok "a folder at the top level that does not belong there" \
	"$(git ls-files | grep / | cut -d/ -f1 | sort -u | grep -vE '^(\.ci|supervisor|worker|ipc|kernels|tests|systemd)$')"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
