/*
 * Work that comes again. What one pass over a micro-batch gives to a GPU is some thousand launches,
 * of microseconds of the host each. Work whose launches have the same arguments as before is one
 * launch instead, of a CUDA graph: done as it comes when it is first seen, so that every kernel is
 * loaded and every area of memory as large as it has to be; recorded the second time; launched from
 * then on. On a CPU it is always done as it comes.
 *
 * Graphs take memory of the device: what they may take is told by repeat_allow. Where there is no
 * room, work is done as it comes; a graph makes room only if it was not launched since the new one
 * was last seen, so that many kinds of work in turn do not record themselves over and over. When
 * memory lacks elsewhere graphs go first, and all of them go whenever memory of the device is given
 * back (op_free), for they hold its addresses.
 *
 * A graph that cannot be recorded, made or launched is no failure: the work is done as it comes,
 * and nothing is recorded any more. What ends the device's work is a failure as ever.
 */
#ifndef KERNELS_REPEAT_H
#define KERNELS_REPEAT_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REPEAT_KEY = 24 }; /* numbers in a key, at most */

/* Ops that wait for nothing, take nothing from the host but what they are called with, and change
   nothing there: so they may be called again after a failure. */
typedef enum op_status repeat_work(const void *argument);

/*
 * Does the work. key (count): all that its ops are called with and that may differ from one time to
 * another: addresses, sizes, scalars. Not what lies behind the addresses; nor the packing, of which
 * only the numbers of tiles matter to a launch. Errors as the work's, or OP_DEVICE_FAULT.
 */
enum op_status repeat_run(struct op_context *ctx, const uint64_t *key, size_t count,
    const struct op_packing *packing, repeat_work *work, const void *argument);

/* Bytes of the device that graphs may take together from now on. 0, as at first: none is made. */
void repeat_allow(struct op_context *ctx, size_t bytes);

struct repeat_counts {
	uint64_t launched; /* times that work was one launch */
	uint64_t recorded; /* times that it was recorded */
	size_t graphs;	   /* there now, and the bytes that they take */
	size_t bytes;
};

struct repeat_counts repeat_counted(const struct op_context *ctx);
/* Why nothing is recorded any more; "" while it is. A view that stays with ctx. */
const char *repeat_trouble(const struct op_context *ctx);

#ifdef __cplusplus
}
#endif

#endif
