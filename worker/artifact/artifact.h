/*
 * What both kinds of artifact share: the identity of the session that wrote one, a sink that
 * counts and hashes the very bytes it writes, and a read-only view of a file that nobody vouches
 * for.
 */
#ifndef WORKER_ARTIFACT_ARTIFACT_H
#define WORKER_ARTIFACT_ARTIFACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/sha256.h"
#include "ipc/refusal.h"

/* Whose artifact it is: of the session when writing; when reading, what must be found. */
struct artifact_identity {
	const char *base_model;	    /* as the client named it */
	const char *model_revision; /* "" = null */
	const char *base_sha256;    /* model_files_digest */
	uint32_t rank;
	double alpha, dropout;
	uint64_t seed;
	const char *build; /* version of the worker; not compared */
};

/* What was written. */
struct artifact_sum {
	uint64_t size;
	char sha256[65]; /* lower-case hex */
};

/* A buffered writer to fd (not consumed). The first error sticks. */
struct artifact_sink {
	int fd;
	int error; /* errno of the first failed write, or 0 */
	uint64_t size;
	size_t fill;
	unsigned char *buffer;
	struct sha256 hash;
};

/* 0 or -1 with *r (507: no memory). */
int artifact_sink_init(struct artifact_sink *s, int fd, struct refusal *r);
void artifact_sink_write(struct artifact_sink *s, const void *data, size_t len);
/* Writes what is buffered and tells the sum. 0, or -1 with *r: 507 when the disk is full. */
int artifact_sink_finish(struct artifact_sink *s, struct artifact_sum *sum, struct refusal *r);
/* Frees the buffer; a finished or half-made sink is allowed. */
void artifact_sink_fini(struct artifact_sink *s);

enum { ARTIFACT_MAX_GIB = 8 };

struct artifact_view {
	const unsigned char *data; /* never NULL after success */
	size_t len;
};

/* Maps the whole file behind fd (not consumed). 0, or -1 with *r: empty, or larger than 8 GiB. */
int artifact_map(struct artifact_view *view, int fd, struct refusal *r);
void artifact_unmap(struct artifact_view *view);

#endif
