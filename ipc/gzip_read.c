#include "ipc/gzip_read.h"

#include <stdbool.h>
#include <stdlib.h>

#include <isa-l/igzip_lib.h>

struct gzip_reader {
	const unsigned char *at, *end; /* input that inflate has not seen */
	struct inflate_state state;
	uint64_t left; /* bytes that may still come out */
	bool between;  /* no member is open */
	bool first;    /* none was yet */
};

struct gzip_reader *
gzip_reader_new(const void *data, size_t len, uint64_t limit)
{
	struct gzip_reader *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->at = data;
	g->end = g->at + len;
	g->left = limit;
	g->between = g->first = true;
	return g;
}

void
gzip_reader_free(struct gzip_reader *g)
{
	free(g);
}

uint64_t
gzip_left(const struct gzip_reader *g)
{
	return g->left;
}

/* Opens the next member: 1, or 0 at the end of the file (zeros may fill it up), or -1. */
static int
open_member(struct gzip_reader *g, struct refusal *r)
{
	if (!g->first)
		while (g->at < g->end && *g->at == 0)
			g->at++;
	if (g->at == g->end && !g->first)
		return 0;
	if (g->end - g->at < 18 || g->at[0] != 0x1f || g->at[1] != 0x8b || g->at[2] != 8)
		return refuse(r, 422,
		    g->first ? "the archive is not a gzip file"
			     : "there is more after the end of the archive");
	isal_inflate_init(&g->state);
	g->state.crc_flag = ISAL_GZIP;
	g->between = g->first = false;
	return 1;
}

/* One call of inflate; out (len) with len > 0. Bytes that came out, or -1. */
static ptrdiff_t
inflate_some(struct gzip_reader *g, unsigned char *out, size_t len, struct refusal *r)
{
	size_t in = (size_t)(g->end - g->at), made;
	int result;

	if (in > 1u << 30)
		in = 1u << 30;
	if (len > 1u << 30)
		len = 1u << 30;
	g->state.next_in = (uint8_t *)(uintptr_t)g->at;
	g->state.avail_in = (uint32_t)in;
	g->state.next_out = out;
	g->state.avail_out = (uint32_t)len;
	result = isal_inflate(&g->state);
	if (result < 0)
		return refuse(r, 422, "the archive's gzip data is damaged");
	made = len - g->state.avail_out;
	/* Not counted from where it began: it gives back bytes that an earlier call had taken. */
	g->at = g->state.next_in;
	if (g->state.block_state == ISAL_BLOCK_FINISH)
		g->between = true;
	else if (made == 0 && g->state.avail_in == 0 && g->at == g->end)
		return refuse(r, 422, "the archive is cut short");
	return (ptrdiff_t)made;
}

ptrdiff_t
gzip_read(struct gzip_reader *g, void *out, size_t len, struct refusal *r)
{
	unsigned char *p = out;
	size_t done = 0;

	while (done < len) {
		ptrdiff_t n;

		if (g->between) {
			n = open_member(g, r);
			if (n <= 0)
				return n == 0 ? (ptrdiff_t)done : -1;
		}
		n = inflate_some(g, p + done, len - done, r);
		if (n < 0)
			return -1;
		if ((uint64_t)n > g->left)
			return refuse(r, 422, "the archive unpacks into more than its limit");
		g->left -= (uint64_t)n;
		done += (size_t)n;
	}
	return (ptrdiff_t)done;
}
