/*
 * The CUDA backend's state and its host side's helpers, for the .cu files of this folder only.
 *
 * One stream, on which everything happens in order. Two areas of device memory that grow when asked
 * for more than ever before, and never shrink: `scratch`, taken whole by the op that runs, and
 * `panel`, for gemm.cu's converted operands. Every call of CUDA and cuBLAS is checked; an error is
 * taken out of the runtime, kept as a sentence and returned.
 */
#ifndef KERNELS_GPU_H
#define KERNELS_GPU_H

#include <cublas_v2.h>
#include <string.h>

#include "kernels/launch.h"
#include "kernels/ops.h"
#include "kernels/sizes.h"

struct gpu_area {
	void *memory;
	size_t size;
};

struct gpu_tiling;  /* tiles.cu */
struct gpu_staging; /* staging.h */
struct gpu_graphs;  /* repeat.cu */

struct op_context {
	enum op_dtype compute;
	int threads, device;
	int multiprocessors;
	size_t shared_most; /* bytes of shared memory that a block may ask for */
	cudaStream_t stream;
	cublasHandle_t blas;
	void *blas_workspace; /* fixed, so that cuBLAS does the same each time */
	struct gpu_area scratch, panel;
	struct gpu_tiling *tiling;
	struct gpu_staging *staging;
	struct gpu_graphs *graphs;
	bool tries; /* what fails now is done in another way, unless the device failed */
	char error[256];
};

/* Keeps the sentence for op_last_error and returns `status`. ctx may be NULL: no context yet. */
enum op_status op_fail(struct op_context *ctx, enum op_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* check.cu: OP_OK, OP_NO_MEMORY or OP_DEVICE_FAULT, with a sentence that begins with `what`;
   OP_UNSUPPORTED where ctx tries and the call alone failed. */
enum op_status gpu_check(struct op_context *ctx, cudaError_t error, const char *what);
enum op_status gpu_check_blas(struct op_context *ctx, cublasStatus_t status, const char *what);

/* *out = at least `bytes` of device memory, owned by ctx, valid until the next call. */
enum op_status gpu_scratch(struct op_context *ctx, void **out, size_t bytes);
enum op_status gpu_panel(struct op_context *ctx, void **out, size_t bytes);

/* Launches and checks; templates with a comma in parentheses. */
#define GPU_RUN(ctx, kernel, grid, block, shared, ...)                                             \
	gpu_check((ctx),                                                                           \
	    (LAUNCH(kernel, grid, block, shared, (ctx)->stream, __VA_ARGS__), cudaGetLastError()), \
	    #kernel)
/* Leaves the function unless the call is OP_OK. */
#define GPU_TRY(call)                                                                              \
	do {                                                                                       \
		enum op_status gpu_status = (call);                                                \
		if (gpu_status != OP_OK)                                                           \
			return gpu_status;                                                         \
	} while (0)

/* Lets a kernel have more dynamic shared memory than 48 KiB. */
template <typename K>
static inline enum op_status
gpu_allow_shared(struct op_context *ctx, K *kernel, size_t bytes)
{
	if (bytes > ctx->shared_most)
		return op_fail(ctx, OP_UNSUPPORTED,
		    "%zu bytes of shared memory, this device has %zu", bytes, ctx->shared_most);
	return gpu_check(ctx,
	    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
	    "cudaFuncSetAttribute");
}

/* Bytes rounded up, to cut several arrays from one area. */
static inline size_t
line_up(size_t bytes)
{
	return div_up(bytes, 256) * 256;
}

enum { GPU_BLOCK = 256 }; /* threads of a block of kernels that go over elements */

/* Blocks for n elements of such a kernel, which strides by the grid: enough to fill the device. */
static inline unsigned
gpu_blocks(const struct op_context *ctx, size_t n)
{
	return (unsigned)size_min(div_up(n, GPU_BLOCK), (size_t)ctx->multiprocessors * 16);
}

#endif
