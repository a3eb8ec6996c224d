/*
 * The head of a request: request line and headers. Bytes are scanned as they arrive, so that what
 * cannot become a request is refused at its first bad byte; a complete head is then read by
 * http_parser, between checks of our own that are stricter than it is: Debian builds it lenient,
 * and every leniency is a way to smuggle a request past a proxy.
 */
#ifndef SUPERVISOR_HTTP_HTTP_HEAD_H
#define SUPERVISOR_HTTP_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HTTP_HEADER_BYTES = 16 * 1024, /* request line and headers together */
	HTTP_HEADER_COUNT = 64,
	HTTP_TARGET_BYTES = 8 * 1024,
};

/* Where the scan of a head is. Zero it for each request. */
struct http_scan {
	size_t seen;	/* bytes scanned */
	size_t line;	/* length of the line so far, without its end */
	bool cr;	/* the last byte was a CR */
	bool past_line; /* the request line is complete */
};

/* Scans the next len bytes. Returns 1 when the head ends in them (scan->seen is its length), 0 for
   more, or minus the HTTP status to refuse with: -400, -414 (target too long), -431. */
int http_scan(struct http_scan *scan, const void *data, size_t len);

struct http_field {
	const char *name, *value; /* value without outer white space */
};

struct http_head {
	char *memory; /* of every string below */
	const char *method, *path;
	const char *query; /* NULL: none */
	struct http_field fields[HTTP_HEADER_COUNT];
	size_t count;
	unsigned minor;	     /* HTTP/1.minor */
	bool keep_alive;     /* the client wants the connection to stay */
	bool chunked;	     /* Transfer-Encoding: chunked */
	bool has_length;     /* Content-Length was given: */
	bool continue_first; /* Expect: 100-continue */
	uint64_t length;
};

/* Reads a complete head of len bytes. 0, or the HTTP status to refuse with: 400, 414, 417, 431,
   501, 505, or 500 without memory. http_head_fini in every case. */
unsigned http_head_parse(struct http_head *h, const void *data, size_t len);
void http_head_fini(struct http_head *h);

/* The first field of that name in any case, or NULL; how many there are. */
const char *http_head_get(const struct http_head *h, const char *name);
size_t http_head_count(const struct http_head *h, const char *name);

#endif
