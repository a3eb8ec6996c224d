#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "ipc/fault.h"
#include "ipc/json_write.h"
#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "supervisor/http/http_conn.h"

enum { HEAD_LINE_BYTES = 256 }; /* types are constants of ours */

/* What every answer carries: nothing here is for caches, frames, scripts or guessing browsers. */
static const char security_headers[] =
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n";

static const char only_tls[] = "Strict-Transport-Security: max-age=31536000\r\n";

const char *
http_status_text(unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} table[] = {
	    {200, "OK"},
	    {201, "Created"},
	    {202, "Accepted"},
	    {204, "No Content"},
	    {400, "Bad Request"},
	    {401, "Unauthorized"},
	    {403, "Forbidden"},
	    {404, "Not Found"},
	    {405, "Method Not Allowed"},
	    {408, "Request Timeout"},
	    {409, "Conflict"},
	    {411, "Length Required"},
	    {413, "Content Too Large"},
	    {414, "URI Too Long"},
	    {415, "Unsupported Media Type"},
	    {417, "Expectation Failed"},
	    {422, "Unprocessable Content"},
	    {429, "Too Many Requests"},
	    {431, "Request Header Fields Too Large"},
	    {500, "Internal Server Error"},
	    {501, "Not Implemented"},
	    {502, "Bad Gateway"},
	    {503, "Service Unavailable"},
	    {504, "Gateway Timeout"},
	    {505, "HTTP Version Not Supported"},
	    {507, "Insufficient Storage"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].status == status)
			return table[i].text;
	return "Status";
}

void
http_add_header(struct http_request *r, const char *name, const char *value)
{
	char *longer;

	/* what would break the line is a programming error, and is not sent */
	if (strpbrk(value, "\r\n") != NULL)
		return;
	if (asprintf(&longer, "%s%s: %s\r\n", r->headers != NULL ? r->headers : "", name, value) <
	    0) {
		if (r->conn != NULL)
			r->conn->broken = true;
		return;
	}
	free(r->headers);
	r->headers = longer;
}

static double
milliseconds_of(const struct http_request *r)
{
	return (monotonic_seconds() - r->begun) * 1e3;
}

/* The status line and the headers. A request that never got a head (a refusal) is answered too. */
static void
put_head(struct http_request *r, unsigned status, const char *type, uint64_t len)
{
	time_t now = time(NULL);
	struct tm tm;
	char date[40], line[HEAD_LINE_BYTES];
	int n;

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	n = snprintf(line, sizeof(line), "HTTP/1.1 %u %s\r\nDate: %s\r\n", status,
	    http_status_text(status), date);
	http_conn_put(r->conn, line, (size_t)n);
	n = type != NULL ? snprintf(line, sizeof(line), "Content-Type: %s\r\n", type) : 0;
	http_conn_put(r->conn, line, (size_t)n);
	n = 0;
	if (len == HTTP_ENDLESS && r->head.minor > 0)
		n = snprintf(line, sizeof(line), "Transfer-Encoding: chunked\r\n");
	else if (status != 204 && len != HTTP_ENDLESS)
		n = snprintf(
		    line, sizeof(line), "Content-Length: %llu\r\n", (unsigned long long)len);
	http_conn_put(r->conn, line, (size_t)n);
	http_conn_put(r->conn, security_headers, sizeof(security_headers) - 1);
	/* a browser that was here by TLS comes back by TLS only; for an IP address none does so */
	if (r->server->options.tls != NULL)
		http_conn_put(r->conn, only_tls, sizeof(only_tls) - 1);
	if (r->headers != NULL)
		http_conn_put(r->conn, r->headers, strlen(r->headers));
	n = snprintf(
	    line, sizeof(line), "Connection: %s\r\n\r\n", r->conn->close ? "close" : "keep-alive");
	http_conn_put(r->conn, line, (size_t)n);
}

/* Everything but the body's bytes. Returns true if those are wanted; the request is freed after. */
bool
http_reply_begin(struct http_request *r, unsigned status, const char *type, uint64_t len)
{
	struct http_conn *c = r->conn;

	log_debug("%s %s %u %.1f ms%s%s%s", r->head.method != NULL ? r->head.method : "?", r->label,
	    status, milliseconds_of(r), *r->caller != '\0' ? ", token " : "", r->caller,
	    c == NULL ? ", client gone" : "");
	r->server->answered[status / 100 % 6]++;
	if (c == NULL)
		return false;
	http_conn_settle(c);
	put_head(r, status, type, len);
	return r->head.method == NULL || strcmp(r->head.method, "HEAD") != 0;
}

void
http_reply_finish(struct http_request *r)
{
	struct http_conn *c = r->conn;

	r->conn = NULL;
	http_request_free(r);
	if (c != NULL)
		http_conn_replied(c);
}

/* Hands the answer over, and ends the request. */
static void
pour(struct http_request *r, struct http_answer *answer)
{
	answer->headers = r->headers != NULL ? r->headers : "";
	log_debug("%s %u %.1f ms, nobody waits", r->label, answer->status, milliseconds_of(r));
	r->sink(r->sink_ctx, answer);
	http_request_free(r);
}

static void
reply(struct http_request *r, unsigned status, const char *type, const char *body, size_t len)
{
	if (r->sink != NULL) {
		struct http_answer answer = {
		    .status = status, .type = type, .body = body, .fd = -1, .len = len};

		pour(r, &answer);
		return;
	}
	if (http_reply_begin(r, status, type, len) && len > 0)
		http_conn_put(r->conn, body, len);
	http_reply_finish(r);
}

void
http_reply_json(struct http_request *r, unsigned status, const char *json, size_t len)
{
	reply(r, status, "application/json", json, len);
}

void
http_reply_empty(struct http_request *r, unsigned status)
{
	reply(r, status, NULL, NULL, 0);
}

static const char out_of_memory[] = "{\"detail\":\"out of memory\"}";

void
http_reply_detail_json(struct http_request *r, unsigned status, const char *json, size_t len)
{
	struct json_writer w;
	const char *text;
	size_t text_len;

	json_writer_init(&w);
	json_write_object(&w);
	json_write_key(&w, "detail");
	json_write_raw(&w, json, len);
	json_write_object_end(&w);
	text = json_writer_text(&w, &text_len);
	if (text == NULL)
		http_reply_json(r, 503, out_of_memory, sizeof(out_of_memory) - 1);
	else
		http_reply_json(r, status, text, text_len);
	json_writer_fini(&w);
}

void
http_reply_detail(struct http_request *r, unsigned status, const char *sentence)
{
	struct json_writer w;
	const char *text;
	size_t len;

	json_writer_init(&w);
	json_write_string(&w, sentence);
	text = json_writer_text(&w, &len);
	if (text == NULL)
		http_reply_json(r, 503, out_of_memory, sizeof(out_of_memory) - 1);
	else
		http_reply_detail_json(r, status, text, len);
	json_writer_fini(&w);
}

void
http_refuse(struct http_request *r, unsigned status)
{
	static const struct {
		unsigned status;
		const char *sentence;
	} table[] = {
	    {400, "the request is not valid HTTP"},
	    {408, "the request did not arrive in time"},
	    {411, "the request needs a Content-Length"},
	    {414, "the request target is too long"},
	    {417, "the only expectation met is 100-continue"},
	    {431, "the request headers are too large"},
	    {501, "the method or transfer coding is not supported"},
	    {503, "there is no memory for the request body now"},
	    {505, "the HTTP version is not supported"},
	    {507, "the disk is full"},
	};
	const char *sentence = "out of memory";
	char text[100];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].status == status)
			sentence = table[i].sentence;
	if (status == 413) {
		snprintf(text, sizeof(text), "the request body is larger than %llu bytes",
		    (unsigned long long)r->body.limit);
		sentence = text;
	}
	http_reply_detail(r, status, sentence);
}

void
http_reply_faults(struct http_request *r, const struct faults *f)
{
	size_t len;
	char *json = faults_detail(f, &len);

	if (json == NULL)
		http_reply_json(r, 503, out_of_memory, sizeof(out_of_memory) - 1);
	else
		http_reply_detail_json(r, faults_status(f), json, len);
	free(json);
}

void
http_reply_fd(struct http_request *r, unsigned status, const char *content_type, int fd,
    uint64_t off, uint64_t len)
{
	if (r->sink != NULL) {
		struct http_answer answer = {
		    .status = status, .type = content_type, .fd = fd, .off = off, .len = len};

		pour(r, &answer);
		close(fd);
		return;
	}
	if (http_reply_begin(r, status, content_type, len)) {
		r->conn->source = fd;
		r->conn->source_off = off;
		r->conn->source_left = len;
	} else {
		close(fd);
	}
	http_reply_finish(r);
}
