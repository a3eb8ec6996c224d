#include "ipc/tar_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/tar.h"

enum { MAX_EXTENDED = 1024 * 1024, MAX_HEADERS = 4 * TAR_MAX_MEMBERS };

#define NO_SIZE UINT64_MAX

struct tar_reader {
	struct gzip_reader *gzip;
	uint64_t left;			  /* of the current member's data, padding included */
	uint64_t size;			  /* of its data */
	char name[TAR_MAX_NAME + 1];	  /* of the current member */
	char long_name[TAR_MAX_NAME + 1]; /* told by a header before it; "" = none */
	uint64_t long_size;		  /* the same; NO_SIZE = none */
	char **names;			  /* all so far, to find one that comes twice */
	size_t count, headers;
};

struct tar_reader *
tar_reader_new(struct gzip_reader *g)
{
	struct tar_reader *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->gzip = g;
	t->long_size = NO_SIZE;
	t->names = calloc(TAR_MAX_MEMBERS, sizeof(t->names[0]));
	if (t->names == NULL) {
		free(t);
		return NULL;
	}
	return t;
}

void
tar_reader_free(struct tar_reader *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i < t->count; i++)
		free(t->names[i]);
	free(t->names);
	free(t);
}

static int
cut(struct refusal *r)
{
	return refuse(r, 422, "the archive ends inside a member");
}

static int
read_exactly(struct tar_reader *t, void *out, size_t len, struct refusal *r)
{
	ptrdiff_t n = gzip_read(t->gzip, out, len, r);

	if (n < 0)
		return -1;
	return (size_t)n == len ? 0 : cut(r);
}

static int
skip(struct tar_reader *t, struct refusal *r)
{
	char waste[16 * 1024];

	while (t->left != 0) {
		size_t n = t->left < sizeof(waste) ? (size_t)t->left : sizeof(waste);

		if (read_exactly(t, waste, n, r) != 0)
			return -1;
		t->left -= n;
	}
	return 0;
}

/* Octal digits between spaces, ended by a space, NUL or the field; or GNU's big-endian binary. */
static bool
number(const char *field, size_t len, uint64_t *out)
{
	size_t i = 0;
	uint64_t v = 0;

	if ((unsigned char)field[0] == 0x80) {
		for (i = 1; i < len; i++) {
			if (v >> 56 != 0)
				return false;
			v = v << 8 | (unsigned char)field[i];
		}
		*out = v;
		return true;
	}
	while (i < len && field[i] == ' ')
		i++;
	if (i == len || field[i] < '0' || field[i] > '7')
		return false;
	for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(field[i] - '0');
	*out = v;
	return i == len || field[i] == ' ' || field[i] == '\0';
}

/* Leaves of a name its parts, joined by single slashes, without "."; refused if it leaves the
   archive's top. */
static int
clean_name(char *name, struct refusal *r)
{
	char *to = name;

	if (name[0] == '/')
		return refuse(r, 422, "the archive holds an absolute name: %.100s", name);
	for (const char *part = name; *part != '\0';) {
		size_t len = strcspn(part, "/");
		const char *next = part + len + (part[len] == '/');

		if (len == 2 && part[0] == '.' && part[1] == '.')
			return refuse(r, 422, "the archive holds a name with `..`: %.100s", name);
		for (size_t i = 0; i < len; i++)
			if ((unsigned char)part[i] < ' ' || part[i] == '\\')
				return refuse(r, 422,
				    "the archive holds a name with control "
				    "characters or backslashes");
		if (len != 0 && !(len == 1 && part[0] == '.')) {
			if (to != name)
				*to++ = '/';
			memmove(to, part, len);
			to += len;
		}
		part = next;
	}
	*to = '\0';
	return 0;
}

static int
remember(struct tar_reader *t, struct refusal *r)
{
	if (t->count == TAR_MAX_MEMBERS)
		return refuse(r, 422, "the archive holds more than %d members", TAR_MAX_MEMBERS);
	t->names[t->count] = strdup(t->name);
	if (t->names[t->count] == NULL)
		return refuse(r, 507, "no memory to read the archive");
	t->count++;
	return 0;
}

static int
by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
check_twice(struct tar_reader *t, struct refusal *r)
{
	qsort(t->names, t->count, sizeof(t->names[0]), by_text);
	for (size_t i = 1; i < t->count; i++)
		if (t->names[i][0] != '\0' && strcmp(t->names[i - 1], t->names[i]) == 0)
			return refuse(r, 422, "the archive holds %.100s twice", t->names[i]);
	return 0;
}

/* The data of a header that speaks of the next one, NUL-terminated. The caller frees. */
static int
read_extended(struct tar_reader *t, char **out, struct refusal *r)
{
	if (t->size > MAX_EXTENDED)
		return refuse(r, 422, "the archive has an extended header of more than %d bytes",
		    MAX_EXTENDED);
	*out = calloc(1, (size_t)t->size + 1);
	if (*out == NULL)
		return refuse(r, 507, "no memory to read the archive");
	if (tar_read(t, *out, r) == 0 && skip(t, r) == 0)
		return 0;
	free(*out);
	return -1;
}

static int
set_long_name(struct tar_reader *t, const char *name, size_t len, struct refusal *r)
{
	if (len == 0 || len > TAR_MAX_NAME || memchr(name, 0, len) != NULL)
		return refuse(r, 422,
		    "the archive holds a name that is empty, longer than %d bytes "
		    "or holds NUL",
		    TAR_MAX_NAME);
	memcpy(t->long_name, name, len);
	t->long_name[len] = '\0';
	return 0;
}

/* Records "length key=value\n"; path and size matter, what else there is does not. */
static int
parse_pax(struct tar_reader *t, const char *text, size_t len, struct refusal *r)
{
	const char *at = text, *end = text + len;

	while (at < end && *at != '\0') {
		size_t size = 0, digits = 0;
		const char *key, *equals, *stop;

		for (; digits < 8 && at + digits < end && at[digits] >= '0' && at[digits] <= '9';
		     digits++)
			size = 10 * size + (size_t)(at[digits] - '0');
		if (digits == 0 || size < digits + 3 || size > (size_t)(end - at) ||
		    at[digits] != ' ' || at[size - 1] != '\n')
			return refuse(r, 422, "the archive has a damaged pax header");
		key = at + digits + 1;
		stop = at + size - 1;
		equals = memchr(key, '=', (size_t)(stop - key));
		if (equals == NULL)
			return refuse(r, 422, "the archive has a damaged pax header");
		if (equals - key == 4 && memcmp(key, "path", 4) == 0 &&
		    set_long_name(t, equals + 1, (size_t)(stop - equals - 1), r) != 0)
			return -1;
		if (equals - key == 4 && memcmp(key, "size", 4) == 0) {
			t->long_size = 0;
			for (const char *p = equals + 1; p < stop; p++) {
				if (*p < '0' || *p > '9' || t->long_size > UINT64_MAX / 100)
					return refuse(
					    r, 422, "the archive has a damaged pax header");
				t->long_size = 10 * t->long_size + (uint64_t)(*p - '0');
			}
		}
		if (equals - key >= 11 && memcmp(key, "GNU.sparse.", 11) == 0)
			return refuse(r, 422, "the archive holds a sparse file");
		at += size;
	}
	return 0;
}

/* A header that speaks of the next one: 1 if it was that, 0 if not, or -1. */
static int
take_extended(struct tar_reader *t, char type, struct refusal *r)
{
	char *text;
	int result = 0;

	if (type != 'x' && type != 'g' && type != 'L')
		return 0;
	if (read_extended(t, &text, r) != 0)
		return -1;
	if (type == 'x')
		result = parse_pax(t, text, (size_t)t->size, r);
	else if (type == 'L')
		result = set_long_name(t, text, strlen(text), r);
	free(text);
	return result == 0 ? 1 : -1;
}

static int
take_header(
    struct tar_reader *t, const struct tar_header *h, struct tar_member *m, struct refusal *r)
{
	bool ustar = memcmp(h->magic, "ustar", 6) == 0;
	uint64_t sum;
	int result;

	if (!number(h->checksum, sizeof(h->checksum), &sum) || sum != tar_checksum(h))
		return refuse(r, 422,
		    "the archive is no tar, or damaged: a header's checksum is "
		    "wrong");
	if (!number(h->size, sizeof(h->size), &t->size))
		return refuse(r, 422, "the archive has a member without a size");
	t->left = (t->size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	result = t->size > INT64_MAX ? cut(r) : take_extended(t, h->type, r);
	if (result != 0)
		return result;
	if (t->long_size != NO_SIZE) {
		t->size = t->long_size;
		t->left = (t->size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	}
	if (t->long_name[0] != '\0')
		memcpy(t->name, t->long_name, sizeof(t->name));
	else
		snprintf(t->name, sizeof(t->name), "%.*s%s%.*s", ustar ? 155 : 0, h->prefix,
		    ustar && h->prefix[0] != '\0' ? "/" : "", 100, h->name);
	t->long_name[0] = '\0';
	t->long_size = NO_SIZE;
	if (clean_name(t->name, r) != 0)
		return -1;
	if (t->size > gzip_left(t->gzip))
		return refuse(r, 422,
		    "the archive unpacks into more than its limit: %.100s has %llu "
		    "bytes",
		    t->name, (unsigned long long)t->size);
	m->folder = h->type == '5';
	if (!m->folder && h->type != '0' && h->type != '\0' && h->type != '7')
		return refuse(
		    r, 422, "the archive holds %.100s, which is a link or no plain file", t->name);
	if (m->folder && t->size != 0)
		return refuse(r, 422, "the archive holds a folder with data: %.100s", t->name);
	if (t->name[0] == '\0' && !m->folder)
		return refuse(r, 422, "the archive holds a file without a name");
	m->name = t->name;
	m->size = t->size;
	return remember(t, r) == 0 ? 2 : -1;
}

/* What follows the first empty block is filling; reading it all checks the CRC. */
static int
drain(struct tar_reader *t, struct refusal *r)
{
	char waste[16 * 1024];
	ptrdiff_t n;

	do {
		n = gzip_read(t->gzip, waste, sizeof(waste), r);
		for (ptrdiff_t i = 0; i < n; i++)
			if (waste[i] != '\0')
				return refuse(r, 422, "the archive has data after its end");
	} while (n > 0);
	return n < 0 ? -1 : check_twice(t, r);
}

int
tar_next(struct tar_reader *t, struct tar_member *m, struct refusal *r)
{
	static const struct tar_header empty;
	struct tar_header h;
	int result = 0;

	while (result < 2) {
		if (skip(t, r) != 0)
			return -1;
		if (t->headers++ == MAX_HEADERS)
			return refuse(
			    r, 422, "the archive holds more than %d headers", MAX_HEADERS);
		if (read_exactly(t, &h, sizeof(h), r) != 0)
			return -1;
		if (memcmp(&h, &empty, sizeof(h)) == 0)
			return drain(t, r);
		result = take_header(t, &h, m, r);
		if (result < 0)
			return -1;
	}
	return 1;
}

int
tar_read(struct tar_reader *t, void *out, struct refusal *r)
{
	uint64_t padding = t->left - t->size;

	if (read_exactly(t, out, (size_t)t->size, r) != 0)
		return -1;
	t->left = padding;
	return 0;
}
