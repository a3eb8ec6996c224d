/*
 * What crosses between host and device without either waiting for the other: two pinned buffers
 * through which op_upload copies, the host filling one while the device reads the other; and notes
 * that kernels write on the device and whoever waits for it next (op_sync) reads.
 */
#ifndef KERNELS_STAGING_H
#define KERNELS_STAGING_H

#include "kernels/gpu.h"

/* Large enough that a copy runs at the bus's full speed, and that many threads fill one. */
enum { STAGING_BYTES = 8 << 20 };

/* 0xffffffff: nothing to say. */
struct gpu_notes {
	unsigned embed;	 /* the first token whose id is none of the table's rows */
	unsigned target; /* the first row of the head whose target is not in the vocabulary */
	double sum;	 /* of op_sum_squares */
};

struct gpu_staging {
	struct gpu_notes *notes;  /* device */
	struct gpu_notes *mirror; /* pinned: as the last op_sync found them */
	unsigned char *buffer[2]; /* pinned, STAGING_BYTES each */
	cudaEvent_t read[2];	  /* the copies out of a buffer are done */
	bool busy[2];		  /* read[i] is recorded and was not waited for */
	int now;		  /* the buffer that is being filled, up to `used` */
	size_t used;
};

enum op_status staging_new(struct op_context *ctx);
/* NULL and half-made ones are allowed. */
void staging_free(struct gpu_staging *s);

/* *out = `bytes` of pinned memory, at most STAGING_BYTES, to be filled and copied from at once, by
   the caller's cudaMemcpyAsync on ctx->stream: it is used again when that is done. Waits where both
   buffers are still being read. */
enum op_status staging_room(struct op_context *ctx, void **out, size_t bytes);

#endif
