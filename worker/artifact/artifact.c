#include "worker/artifact/artifact.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/file.h"

enum { BUFFER = 1024 * 1024 };

int
artifact_sink_init(struct artifact_sink *s, int fd, struct refusal *r)
{
	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->buffer = malloc(BUFFER);
	if (s->buffer == NULL)
		return refuse(r, 507, "no memory to write the artifact");
	sha256_init(&s->hash);
	return 0;
}

static void
write_all(struct artifact_sink *s, const unsigned char *data, size_t len)
{
	sha256_update(&s->hash, data, len);
	s->size += len;
	if (s->error == 0)
		s->error = -file_write(s->fd, data, len);
}

static void
flush(struct artifact_sink *s)
{
	write_all(s, s->buffer, s->fill);
	s->fill = 0;
}

void
artifact_sink_write(struct artifact_sink *s, const void *data, size_t len)
{
	if (s->error != 0)
		return;
	if (len > BUFFER - s->fill)
		flush(s);
	if (len >= BUFFER) {
		write_all(s, data, len);
		return;
	}
	memcpy(s->buffer + s->fill, data, len);
	s->fill += len;
}

int
artifact_sink_finish(struct artifact_sink *s, struct artifact_sum *sum, struct refusal *r)
{
	if (s->error == 0)
		flush(s);
	if (s->error != 0)
		return refuse(r, 507, "the artifact could not be written: %s", strerror(s->error));
	sum->size = s->size;
	sha256_final_hex(&s->hash, sum->sha256);
	return 0;
}

void
artifact_sink_fini(struct artifact_sink *s)
{
	free(s->buffer);
	s->buffer = NULL;
}

int
artifact_map(struct artifact_view *view, int fd, struct refusal *r)
{
	struct stat st;
	void *data;

	*view = (struct artifact_view){NULL, 0};
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return refuse(r, 422, "the artifact is no regular file");
	if (st.st_size == 0)
		return refuse(r, 422, "the artifact is empty");
	if (st.st_size > (off_t)ARTIFACT_MAX_GIB << 30)
		return refuse(r, 422, "the artifact is larger than %d GiB", ARTIFACT_MAX_GIB);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return refuse(r, 507, "the artifact cannot be mapped: %s", strerror(errno));
	madvise(data, (size_t)st.st_size, MADV_SEQUENTIAL);
	*view = (struct artifact_view){data, (size_t)st.st_size};
	return 0;
}

void
artifact_unmap(struct artifact_view *view)
{
	if (view->data != NULL)
		munmap((void *)(uintptr_t)view->data, view->len);
	*view = (struct artifact_view){NULL, 0};
}
