/*
 * Blobs: bytes in a memfd, written by one process, then sealed (no write, no resize) and handed to
 * another, which can map them without fearing a change under its hands.
 */
#ifndef IPC_BLOB_H
#define IPC_BLOB_H

#include <stdbool.h>
#include <stddef.h>

/* An empty writable memfd, close-on-exec, seals allowed; `name` shows in /proc. fd or -errno. */
int blob_new(const char *name);
/* Appends all of data at the file's offset. 0 or -errno. */
int blob_write(int fd, const void *data, size_t len);
/* Adds every seal. 0 or -errno. */
int blob_seal(int fd);
/* A sealed blob of these bytes: fd, or -errno. */
int blob_from(const char *name, const void *data, size_t len);
bool blob_is_sealed(int fd);

/* A read-only view of a whole file. */
struct blob_view {
	const void *data; /* never NULL after success, also when len is 0 */
	size_t len;
	bool mapped;
};

/* Maps a blob that another process made: refused with -EPERM unless it is sealed. Does not consume
   fd. 0 or -errno. */
int blob_map(struct blob_view *view, int fd);
/* The same for one that is not trusted with its size: -EFBIG over `most`, though nothing may be in
   it. */
int blob_map_most(struct blob_view *view, int fd, size_t most);
void blob_unmap(struct blob_view *view);

#endif
