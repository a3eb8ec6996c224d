#include "worker/artifact/gzip.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/igzip_lib.h>

enum { PIECE = 256 * 1024 };

struct gzip_writer {
	struct artifact_sink *sink;
	struct isal_zstream stream;
	unsigned char level[ISAL_DEF_LVL1_DEFAULT];
	unsigned char out[PIECE];
};

struct gzip_writer *
gzip_writer_new(struct artifact_sink *sink)
{
	struct gzip_writer *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->sink = sink;
	isal_deflate_init(&w->stream);
	w->stream.level = 1;
	w->stream.level_buf = w->level;
	w->stream.level_buf_size = sizeof(w->level);
	w->stream.gzip_flag = IGZIP_GZIP;
	return w;
}

/* Compresses what next_in has. The only errors of isal_deflate are of its settings, above. */
static void
deflate_all(struct gzip_writer *w)
{
	do {
		w->stream.next_out = w->out;
		w->stream.avail_out = sizeof(w->out);
		isal_deflate(&w->stream);
		artifact_sink_write(w->sink, w->out, sizeof(w->out) - w->stream.avail_out);
	} while (w->stream.avail_out == 0);
}

void
gzip_write(struct gzip_writer *w, const void *data, size_t len)
{
	const unsigned char *p = data;

	while (len != 0) {
		size_t n = len < 1u << 30 ? len : 1u << 30; /* ISA-L counts in 32 bits */

		w->stream.next_in = (uint8_t *)(uintptr_t)p;
		w->stream.avail_in = (uint32_t)n;
		deflate_all(w);
		p += n;
		len -= n;
	}
}

void
gzip_writer_finish(struct gzip_writer *w)
{
	w->stream.end_of_stream = 1;
	w->stream.next_in = NULL;
	w->stream.avail_in = 0;
	deflate_all(w);
}

void
gzip_writer_free(struct gzip_writer *w)
{
	free(w);
}
