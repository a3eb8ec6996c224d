#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/api/api_body.h"
#include "supervisor/http/http_server.h"
#include "supervisor/settings/config.h"
#include "supervisor/store/object_store.h"
#include "supervisor/api/routes.h"

/* What a PUT or GET keeps from its head to its end. */
struct exchange {
	struct stepd *s;
	struct object_ref ref;
	int fd; /* of a PUT, -1 = none */
	uint64_t reserved;
};

static void
exchange_free(void *data)
{
	struct exchange *x = data;

	if (x->fd >= 0)
		close(x->fd);
	objects_release(x->s, x->reserved);
	free(x);
}

/* Judges the signature: the exchange, or NULL after a reply. */
static struct exchange *
exchange_new(struct stepd *s, struct http_request *r, enum object_verb verb)
{
	struct exchange *x = calloc(1, sizeof(*x));
	int rc;

	if (x == NULL) {
		http_reply_detail(r, 503, api_no_memory);
		return NULL;
	}
	x->s = s;
	x->fd = -1;
	http_set_data(r, x);
	http_on_end(r, exchange_free);
	rc = object_url_verify(&x->ref, s->objects->key, verb, http_param(r),
	    http_query(r, "expires"), http_query(r, "limit"), http_query(r, "signature"),
	    time(NULL));
	if (rc == 0) {
		http_trust(r, "");
		return x;
	}
	http_reply_detail(
	    r, 403, rc == -ESTALE ? "the URL has expired" : "the URL is not signed for this");
	return NULL;
}

static void
reply_put_error(struct http_request *r, int error)
{
	switch (error) {
	case -EEXIST:
		http_reply_detail(r, 409, "the object was put before");
		break;
	case -EFBIG:
		http_reply_detail(r, 413, "the object is larger than its URL allows");
		break;
	case -ENOSPC:
		http_reply_detail(r, 507, "the object store is full");
		break;
	default:
		log_error("an object was not stored: %s", strerror(-error));
		http_reply_detail(r, 500, "the object could not be stored");
		break;
	}
}

int
api_object_put_begin(struct stepd *s, struct http_request *r, struct route_sink *sink)
{
	struct exchange *x = exchange_new(s, r, OBJECT_PUT);
	uint64_t len;
	int rc;

	if (x == NULL)
		return -1;
	len = http_content_length(r);
	if (len > x->ref.limit)
		rc = -EFBIG;
	else if (objects_have(s->objects, x->ref.id))
		rc = -EEXIST;
	else
		rc = objects_reserve(s, len, true);
	if (rc == 0) {
		x->reserved = len;
		x->fd = objects_temporary(s->objects);
		rc = x->fd < 0 ? x->fd : 0;
	}
	if (rc != 0) {
		reply_put_error(r, rc);
		return -1;
	}
	sink->fd = x->fd;
	sink->limit = x->ref.limit;
	return 0;
}

static void
put_done(void *arg, int error)
{
	struct http_request *r = arg;

	if (error != 0)
		reply_put_error(r, error);
	else
		http_reply_empty(r, 200);
}

void
api_object_put(struct stepd *s, struct http_request *r)
{
	struct exchange *x = http_data(r);
	int fd = x->fd;

	x->fd = -1;
	objects_release(s, x->reserved);
	x->reserved = 0;
	objects_put(s, &x->ref, fd, put_done, r);
}

int
api_object_get_begin(struct stepd *s, struct http_request *r, struct route_sink *sink)
{
	(void)sink;
	return exchange_new(s, r, OBJECT_GET) != NULL ? 0 : -1;
}

void
api_object_get(struct stepd *s, struct http_request *r)
{
	struct exchange *x = http_data(r);
	uint64_t size;
	int fd = objects_open(s, &x->ref, &size);

	if (fd >= 0)
		http_reply_fd(r, 200, "application/octet-stream", fd, 0, size);
	else if (fd == -ENOENT)
		http_reply_detail(r, 404, "object not found");
	else
		http_reply_detail(r, 500, "the object could not be read");
}
