#include "supervisor/session/datum_log.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/file.h"

void
datum_log_init(struct datum_log *log)
{
	*log = (struct datum_log){.fd = -1};
}

void
datum_log_fini(struct datum_log *log)
{
	if (log->fd >= 0)
		close(log->fd);
	free(log->parts);
	datum_log_init(log);
}

static int
make_room(struct datum_log *log)
{
	size_t room = log->room == 0 ? 64 : 2 * log->room;
	struct datum_part *parts;

	if (log->fd < 0)
		log->fd = blob_new("stepd-datums");
	if (log->fd < 0) {
		int error = log->fd;

		log->fd = -1;
		return error;
	}
	if (log->count < log->room)
		return 0;
	parts = reallocarray(log->parts, room, sizeof(*parts));
	if (parts == NULL)
		return -ENOMEM;
	log->parts = parts;
	log->room = room;
	return 0;
}

int
datum_log_add(struct datum_log *log, const void *data, size_t len)
{
	struct datum_part part = {.offset = log->size, .len = len};
	int error;

	crypto_generichash(part.digest, sizeof(part.digest), data, len, NULL, 0);
	for (size_t i = 0; i < log->count; i++) {
		if (memcmp(log->parts[i].digest, part.digest, sizeof(part.digest)) == 0)
			return 0;
	}
	error = make_room(log);
	if (error == 0)
		error = blob_write(log->fd, data, len);
	if (error != 0) {
		/* A half-written part must not shift the next one. */
		if (log->fd >= 0)
			lseek(log->fd, (off_t)log->size, SEEK_SET);
		return error;
	}
	log->parts[log->count++] = part;
	log->size += len;
	return 1;
}

void
datum_log_drop_last(struct datum_log *log)
{
	if (log->count == 0)
		return;
	log->count--;
	log->size = log->parts[log->count].offset;
	lseek(log->fd, (off_t)log->size, SEEK_SET);
}

int
datum_log_part(const struct datum_log *log, size_t i)
{
	const struct datum_part *part = &log->parts[i];
	uint8_t *data = malloc(part->len + 1);
	int fd = data == NULL ? -ENOMEM : file_read_at(log->fd, data, part->len, part->offset);

	if (fd == 0)
		fd = blob_from("datums", data, part->len);
	free(data);
	return fd;
}
