/*
 * Any bytes on a connection, in pieces of the first byte's size: the answers are well formed,
 * bodies are what was sent, and nothing is left when the client has gone.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "supervisor/http/http_conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 4096, ANSWERS_MAX = 1 << 20 };

static struct event_base *base;
static struct http_server *server;
static struct http_request *later; /* one that is answered when its client may have gone */

static int
judge(void *arg, struct http_request *r, struct http_plan *plan)
{
	(void)arg;
	if (strcmp(http_path(r), "/refuse") == 0) {
		http_reply_detail(r, 401, "no");
		return -1;
	}
	if (strcmp(http_path(r), "/wait") == 0) {
		http_refuse_late(r, 0, 401, "no, later");
		return -1;
	}
	plan->body = strcmp(http_path(r), "/discard") == 0 ? HTTP_BODY_DISCARD : HTTP_BODY_MEMORY;
	plan->needs_length = strcmp(http_path(r), "/length") == 0;
	plan->limit = BODY_MAX;
	return 0;
}

static void
handle(void *arg, struct http_request *r)
{
	const struct blob_view *body = http_body(r);

	(void)arg;
	if (body == NULL || body->len > BODY_MAX || body->len != http_body_len(r))
		abort();
	http_query(r, "a");
	if (http_is_json(r))
		http_add_header(r, "Json", "yes");
	if (strcmp(http_path(r), "/later") == 0 && later == NULL)
		later = r;
	else
		http_reply_json(r, 200, body->data, body->len);
}

static void
start(void)
{
	struct http_options options = {
	    .judge = judge,
	    .handle = handle,
	    .connections = 8,
	    .header_seconds = 60,
	    .body_seconds = 60,
	    .idle_seconds = 60,
	    .body_memory = 2 * BODY_MAX,
	};

	signal(SIGPIPE, SIG_IGN); /* as main does */
	base = event_base_new();
	if (base == NULL || http_server_open(&server, base, &options) != 0)
		abort();
}

/* Every answer has a status line, a length and that many bytes (but to HEAD, which is why a length
   that is not there is looked past only if the input could hold one). */
static void
check_answers(const char *p, size_t len, bool may_be_head)
{
	static const char line[] = "HTTP/1.1 ", field[] = "Content-Length: ";

	while (len > 0) {
		const char *end = memmem(p, len, "\r\n\r\n", 4), *length;
		size_t head, body = 0;

		if (len < sizeof(line) || memcmp(p, line, sizeof(line) - 1) != 0 || end == NULL)
			abort();
		head = (size_t)(end - p) + 4;
		length = memmem(p, head, field, sizeof(field) - 1);
		if (length != NULL)
			body = strtoul(length + sizeof(field) - 1, NULL, 10);
		if (may_be_head)
			return;
		if (body > len - head)
			abort();
		p += head + body;
		len -= head + body;
	}
}

static size_t
read_answers(int fd, char *answers, size_t len)
{
	ssize_t n;

	while (
	    len < ANSWERS_MAX && (n = recv(fd, answers + len, ANSWERS_MAX - len, MSG_DONTWAIT)) > 0)
		len += (size_t)n;
	return len;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char answers[ANSWERS_MAX];
	struct sockaddr_un peer = {.sun_family = AF_UNIX};
	size_t piece, len = 0;
	int fds[2];

	if (server == NULL)
		start();
	if (size < 1)
		return 0;
	piece = *data != 0 ? *data : size;
	data++;
	size--;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0 ||
	    http_conn_new(server, fds[0], (struct sockaddr *)&peer) != 0)
		abort();
	for (size_t at = 0; at < size; at += piece) {
		size_t n = size - at < piece ? size - at : piece;

		if (send(fds[1], data + at, n, MSG_NOSIGNAL) != (ssize_t)n)
			break;
		for (int i = 0; i < 3; i++)
			event_base_loop(base, EVLOOP_NONBLOCK);
		len = read_answers(fds[1], answers, len);
	}
	shutdown(fds[1], SHUT_WR);
	for (int i = 0; i < 200 && server->conn_count > 0 && later == NULL; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		len = read_answers(fds[1], answers, len);
	}
	check_answers(answers, len, memmem(data, size, "HEAD ", 5) != NULL);
	close(fds[1]);
	if (later != NULL)
		http_reply_detail(later, 200, "late");
	later = NULL;
	for (int i = 0; i < 200 && server->conn_count > 0; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	if (server->conn_count != 0 || server->request_count != 0 || server->body_used != 0)
		abort();
	return 0;
}
