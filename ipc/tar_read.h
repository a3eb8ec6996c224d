/*
 * Reading tar in whatever form Python's tarfile, GNU tar or BSD tar write it (ustar, pax, GNU long
 * names), from an archive that nobody vouches for: only plain files and folders below the top, each
 * name once; links, devices, absolute names and `..` are refused. Nothing is unpacked to a disk.
 * Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header".
 */
#ifndef IPC_TAR_READ_H
#define IPC_TAR_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/gzip_read.h"
#include "ipc/refusal.h"

enum { TAR_MAX_MEMBERS = 10000, TAR_MAX_NAME = 4096 };

struct tar_reader;

struct tar_member {
	const char *name; /* view until the next call; without "." and doubled or last "/" */
	bool folder;
	uint64_t size; /* of a file's data */
};

/* Reads from g, which the caller keeps. NULL: no memory. */
struct tar_reader *tar_reader_new(struct gzip_reader *g);
void tar_reader_free(struct tar_reader *t);
/* The next member: 1; 0 at the end (all of g was read); -1 with *r. What was not read of the member
   before is skipped. */
int tar_next(struct tar_reader *t, struct tar_member *m, struct refusal *r);
/* The current member's data, all of it, into out (size). 0 or -1 with *r. */
int tar_read(struct tar_reader *t, void *out, struct refusal *r);

#endif
