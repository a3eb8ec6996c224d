/* Reads and writes of a file that are whole, however the kernel splits them. */
#ifndef IPC_FILE_H
#define IPC_FILE_H

#include <stddef.h>
#include <stdint.h>

/* `len` bytes from `at` on. 0, -ENODATA: the file ends before, or -errno. */
int file_read_at(int fd, void *out, size_t len, uint64_t at);
/* 0, -EIO: it takes nothing more, or -errno; then part of it may be there. */
int file_write_at(int fd, const void *data, size_t len, uint64_t at);
/* The same at the file's own place. */
int file_write(int fd, const void *data, size_t len);

#endif
