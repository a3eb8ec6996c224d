#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "supervisor/http/http_conn.h"

enum { WRITEBACK_BYTES = 8 * 1024 * 1024 };

/* Takes len more bytes from what all bodies together may use. */
static bool
reserve(struct http_request *r, uint64_t len)
{
	struct http_server *s = r->server;

	if (len > s->options.body_memory - s->body_used)
		return false;
	s->body_used += len;
	r->body.reserved += len;
	return true;
}

unsigned
http_body_begin(struct http_request *r, const struct http_plan *plan)
{
	const struct http_head *h = &r->head;

	r->body.kind = plan->body;
	r->body.limit = plan->limit;
	if (h->has_length && h->length > plan->limit)
		return 413;
	if (plan->needs_length && !h->has_length)
		return 411;
	if (plan->body == HTTP_BODY_FILE)
		r->body.fd = plan->fd;
	if (plan->body == HTTP_BODY_MEMORY && h->has_length && !reserve(r, h->length))
		return 503;
	return 0;
}

unsigned
http_body_add(struct http_request *r, const void *data, size_t len)
{
	struct http_body *b = &r->body;
	const char *p = data;

	if (len > b->limit - b->len)
		return 413;
	if (b->kind == HTTP_BODY_MEMORY) {
		if (b->fd == -1) {
			b->fd = blob_new("body");
			if (b->fd < 0) {
				b->fd = -1;
				return 503;
			}
		}
		if (b->reserved < b->len + len && !reserve(r, b->len + len - b->reserved))
			return 503;
	}
	while (len > 0 && b->kind != HTTP_BODY_DISCARD) {
		ssize_t n = pwrite(b->fd, p, len, (off_t)b->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return b->kind == HTTP_BODY_FILE ? 507 : 503;
		/* start writing back early: a long wait in the final fsync helps nobody */
		if (b->kind == HTTP_BODY_FILE &&
		    b->len / WRITEBACK_BYTES != (b->len + (uint64_t)n) / WRITEBACK_BYTES)
			sync_file_range(b->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
		p += n;
		len -= (size_t)n;
		b->len += (uint64_t)n;
	}
	b->len += len;
	return 0;
}

unsigned
http_body_end(struct http_request *r)
{
	struct http_body *b = &r->body;

	if (b->kind == HTTP_BODY_MEMORY && b->fd != -1)
		return blob_seal(b->fd) != 0 ? 503 : 0;
	return 0;
}

void
http_body_fini(struct http_request *r)
{
	struct http_body *b = &r->body;

	if (b->mapped)
		blob_unmap(&b->view);
	b->mapped = false;
	if (b->fd != -1 && b->kind == HTTP_BODY_MEMORY)
		close(b->fd);
	b->fd = -1;
	if (b->reserved > 0)
		r->server->body_used -= b->reserved;
	b->reserved = 0;
}

size_t
http_body_len(const struct http_request *r)
{
	return r->body.kind == HTTP_BODY_DISCARD ? 0 : (size_t)r->body.len;
}

const struct blob_view *
http_body(struct http_request *r)
{
	struct http_body *b = &r->body;

	if (!b->mapped) {
		b->view = (struct blob_view){.data = "", .len = 0};
		if (b->kind != HTTP_BODY_MEMORY || b->fd == -1)
			return &b->view;
		if (blob_map(&b->view, b->fd) != 0)
			return NULL;
		b->mapped = true;
	}
	return &b->view;
}

int
http_body_take(struct http_request *r)
{
	int fd = r->body.fd;

	r->body.fd = -1;
	return fd;
}
