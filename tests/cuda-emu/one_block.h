/*
 * Launches of one block, for tests of what the threads compute: memory on both sides, there and
 * back, and random bits.
 */
#ifndef CUDA_EMU_ONE_BLOCK_H
#define CUDA_EMU_ONE_BLOCK_H

#include "kernels/lanes.h"
#include "tests/unit/test.h"

/* Memory of both sides, n elements of T. */
template <typename T> struct both {
	T *host, *device;
	size_t n;

	explicit both(size_t count) : n(count)
	{
		host = (T *)calloc(n, sizeof(T));
		CHECK(cudaMalloc((void **)&device, n * sizeof(T)) == cudaSuccess);
	}
	~both()
	{
		CHECK(cudaFree(device) == cudaSuccess);
		free(host);
	}
	void copy(bool to_device)
	{
		cudaMemcpyKind kind = to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
		void *to = to_device ? device : host, *from = to_device ? host : device;

		CHECK(cudaMemcpyAsync(to, from, n * sizeof(T), kind, 0) == cudaSuccess);
		CHECK(cudaStreamSynchronize(0) == cudaSuccess);
	}
};

/* One launch on `m`, there and back. */
#define RUN(m, kernel, threads)                                                                    \
	do {                                                                                       \
		(m).copy(true);                                                                    \
		LAUNCH(kernel, 1, threads, 0, 0, (m).device);                                      \
		CHECK(cudaGetLastError() == cudaSuccess);                                          \
		(m).copy(false);                                                                   \
	} while (0)

static inline uint32_t
next_random(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15u;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 32);
}

#endif
