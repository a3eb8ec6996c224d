#include "worker/artifact/tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
tar_put_header(struct gzip_writer *w, const char *name, uint64_t size)
{
	struct tar_header h = {.type = '0', .magic = "ustar", .version = {'0', '0'}};

	snprintf(h.name, sizeof(h.name), "%s", name);
	memcpy(h.mode, "0000644", 8);
	memcpy(h.uid, "0000000", 8);
	memcpy(h.gid, "0000000", 8);
	snprintf(h.mtime, sizeof(h.mtime), "%011o", 0);
	if (size < UINT64_C(1) << 33) {
		snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)size);
	} else {
		h.size[0] = (char)0x80; /* GNU's form for what eleven digits cannot hold */
		for (int i = 0; i < 8; i++)
			h.size[11 - i] = (char)(size >> (8 * i));
	}
	snprintf(h.checksum, sizeof(h.checksum), "%06o", tar_checksum(&h));
	h.checksum[7] = ' ';
	gzip_write(w, &h, sizeof(h));
}

void
tar_put_padding(struct gzip_writer *w, uint64_t size)
{
	static const char zeros[TAR_BLOCK];

	gzip_write(w, zeros, (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

void
tar_put_file(struct gzip_writer *w, const char *name, const void *data, size_t len)
{
	tar_put_header(w, name, len);
	gzip_write(w, data, len);
	tar_put_padding(w, len);
}

void
tar_put_end(struct gzip_writer *w)
{
	static const char zeros[2 * TAR_BLOCK];

	gzip_write(w, zeros, sizeof(zeros));
}
