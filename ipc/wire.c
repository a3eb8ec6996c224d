#include "ipc/wire.h"

#include <errno.h>
#include <string.h>

void
wire_put_init(struct wire_put *w, void *storage, size_t size)
{
	*w = (struct wire_put){.data = storage, .size = size};
}

/* Room for len bytes, or NULL and the whole has failed. */
static uint8_t *
room(struct wire_put *w, size_t len)
{
	uint8_t *at;

	if (w->failed || len > w->size - w->len) {
		w->failed = true;
		return NULL;
	}
	at = w->data + w->len;
	w->len += len;
	return at;
}

static void
put_le(struct wire_put *w, uint64_t v, size_t bytes)
{
	uint8_t *at = room(w, bytes);

	for (size_t i = 0; at != NULL && i < bytes; i++)
		at[i] = (uint8_t)(v >> (8 * i));
}

void
wire_put_u8(struct wire_put *w, uint8_t v)
{
	put_le(w, v, 1);
}

void
wire_put_u32(struct wire_put *w, uint32_t v)
{
	put_le(w, v, 4);
}

void
wire_put_u64(struct wire_put *w, uint64_t v)
{
	put_le(w, v, 8);
}

void
wire_put_i64(struct wire_put *w, int64_t v)
{
	put_le(w, (uint64_t)v, 8);
}

void
wire_put_f64(struct wire_put *w, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	put_le(w, bits, 8);
}

void
wire_put_bytes(struct wire_put *w, const void *data, size_t len)
{
	uint8_t *at;

	if (len > UINT32_MAX) {
		w->failed = true;
		return;
	}
	wire_put_u32(w, (uint32_t)len);
	at = room(w, len);
	if (at != NULL && len > 0)
		memcpy(at, data, len);
}

void
wire_put_string(struct wire_put *w, const char *text)
{
	wire_put_bytes(w, text, strlen(text) + 1);
}

long
wire_put_end(const struct wire_put *w)
{
	return w->failed ? -EMSGSIZE : (long)w->len;
}

void
wire_get_init(struct wire_get *r, const void *data, size_t len)
{
	*r = (struct wire_get){.data = data, .size = len};
}

static const uint8_t *
take(struct wire_get *r, size_t len)
{
	const uint8_t *at;

	if (r->failed || len > r->size - r->at) {
		r->failed = true;
		return NULL;
	}
	at = r->data + r->at;
	r->at += len;
	return at;
}

static uint64_t
get_le(struct wire_get *r, size_t bytes)
{
	const uint8_t *at = take(r, bytes);
	uint64_t v = 0;

	for (size_t i = 0; at != NULL && i < bytes; i++)
		v |= (uint64_t)at[i] << (8 * i);
	return v;
}

uint8_t
wire_get_u8(struct wire_get *r)
{
	return (uint8_t)get_le(r, 1);
}

uint32_t
wire_get_u32(struct wire_get *r)
{
	return (uint32_t)get_le(r, 4);
}

uint64_t
wire_get_u64(struct wire_get *r)
{
	return get_le(r, 8);
}

int64_t
wire_get_i64(struct wire_get *r)
{
	return (int64_t)get_le(r, 8);
}

double
wire_get_f64(struct wire_get *r)
{
	uint64_t bits = get_le(r, 8);
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

const void *
wire_get_bytes(struct wire_get *r, size_t *len)
{
	uint32_t n = wire_get_u32(r);
	const uint8_t *at = take(r, n);

	*len = at == NULL ? 0 : n;
	return at == NULL ? (const void *)"" : at;
}

const char *
wire_get_string(struct wire_get *r)
{
	size_t len;
	const char *text = wire_get_bytes(r, &len);

	if (r->failed || len == 0 || memchr(text, '\0', len) != text + len - 1) {
		r->failed = true;
		return "";
	}
	return text;
}

bool
wire_get_bool(struct wire_get *r)
{
	uint8_t value = wire_get_u8(r);

	if (value > 1)
		r->failed = true;
	return value == 1;
}

void
wire_get_text(struct wire_get *r, char *out, size_t size)
{
	const char *text = wire_get_string(r);
	size_t len = strlen(text);

	if (len >= size) {
		r->failed = true;
		len = 0;
	}
	memcpy(out, text, len);
	out[len] = '\0';
}

void
wire_get_exactly(struct wire_get *r, void *out, size_t size)
{
	size_t len;
	const void *data = wire_get_bytes(r, &len);

	if (len != size) {
		r->failed = true;
		memset(out, 0, size);
		return;
	}
	memcpy(out, data, size);
}

int
wire_get_version(struct wire_get *r, uint8_t newest)
{
	uint8_t version = wire_get_u8(r);

	if (version > newest)
		return -EPROTO;
	return r->failed || version == 0 ? -EBADMSG : version;
}

int
wire_get_end(const struct wire_get *r)
{
	return r->failed || r->at != r->size ? -EBADMSG : 0;
}
