/*
 * Calls of the emulated CUDA that fail: the n-th of a class, with an error of CUDA (of cuBLAS in
 * its two classes). What fails is told by
 *
 *	EMU_FAIL=launch:3	the third launch of the process, with the class' usual error
 *	EMU_FAIL=copy:2:214:late	and with error 214, told by the next call that waits
 *	EMU_FAIL_PAGE=FILE		a page that a test shares with the processes it starts
 *
 * An error that ends a context stays: every later call of the process fails with it, and no kernel
 * runs. A late one is not told by its call, which then did nothing, like all work behind it, until
 * somebody waits: what the device does is asynchronous.
 */
#ifndef CUDA_EMU_FAIL_H
#define CUDA_EMU_FAIL_H

#include <stdint.h>

/* X(NAME, "as EMU_FAIL has it", the usual error, what): a page has them by their place, from 1 on.
 */
#define EMU_CLASS_LIST(X)                                                                          \
	X(LAUNCH, "launch", 719, "launches")                                                       \
	X(MALLOC, "malloc", 2, "cudaMalloc")                                                       \
	X(FREE, "free", 719, "cudaFree")                                                           \
	X(HOST, "host", 2, "cudaMallocHost, cudaFreeHost")                                         \
	X(COPY, "copy", 719, "cudaMemcpyAsync")                                                    \
	X(SET, "set", 719, "cudaMemsetAsync")                                                      \
	X(STREAM, "stream", 2, "streams and events")                                               \
	X(SYNC, "sync", 719, "what waits")                                                         \
	X(ERROR, "error", 719, "cudaGetLastError")                                                 \
	X(CAPTURE, "capture", 900, "what records, makes and ends graphs")                          \
	X(GRAPH, "graph", 719, "cudaGraphLaunch")                                                  \
	X(DEVICE, "device", 46, "what asks for, chooses or tunes a device")                        \
	X(BLAS, "blas", 1, "a cuBLAS handle made, ended, tuned")                                   \
	X(GEMM, "gemm", 13, "cuBLAS' products")

#define EMU_ENUM(name, ...) EMU_##name,
enum emu_class { EMU_NOTHING, EMU_CLASS_LIST(EMU_ENUM) EMU_CLASSES };
#undef EMU_ENUM

enum { EMU_NOTED = 65536 };

/* All fields are 32 bits; zeros: nothing fails. */
struct emu_fail_page {
	uint32_t what; /* enum emu_class; armed unless EMU_NOTHING */
	uint32_t nth;  /* the call that fails, from 1 on */
	uint32_t late;
	int32_t error;
	uint32_t calls; /* of the class since it was armed */
	uint32_t fired;
	uint32_t gone;	/* there is no device for processes that begin */
	char name[36];	/* of the call that failed last: a function, or a kernel */
	char only[32];	/* none but calls of this name count; "" = all */
	uint32_t every; /* the n-th and all after it */
	uint32_t note;	/* every call of every class is noted below */
	uint32_t noted;
	struct {
		uint32_t what, site; /* its class; who called, as a number */
	} call[EMU_NOTED];
};

#ifdef __cplusplus
extern "C" {
#endif

/* Takes this page in the place of the environment's. */
void emu_fail_use(struct emu_fail_page *page);

#ifdef __cplusplus
}
#endif

#endif
