/*
 * A file of a model folder, mapped read-only. Only regular files are taken (a fifo would hang the
 * worker, a device could be anything).
 */
#ifndef WORKER_FILES_FILE_MAP_H
#define WORKER_FILES_FILE_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "ipc/refusal.h"

struct file_map {
	const char *data; /* never NULL after success; not NUL-terminated */
	size_t len;
};

/* Maps dir/name (dir "" = name is the path). 0; 1 if there is no such file; -1 with *r, which names
   the file by its last part only. */
int file_map_open(struct file_map *m, const char *dir, const char *name, struct refusal *r);
/* The same for the small files of a model: refuses more than 64 MiB. */
int file_map_small(struct file_map *m, const char *dir, const char *name, struct refusal *r);
/* A zeroed map is allowed. */
void file_map_close(struct file_map *m);
/* The last part of a path. */
const char *file_base_name(const char *path);

#endif
