/*
 * Philox4x32-10 (Salmon et al. 2011): four random words from a key and a counter, the same on every
 * device and thread count. Includable from any backend and from the worker.
 */
#ifndef KERNELS_PHILOX_H
#define KERNELS_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define PHILOX_INLINE static inline __host__ __device__
#else
#define PHILOX_INLINE static inline
#endif

/* out[0..3] for counter `block`; `stream` tells apart uses of one seed. */
PHILOX_INLINE void
philox(uint32_t out[4], uint64_t seed, uint64_t stream, uint64_t block)
{
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
	uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
	uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);

	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
		uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;

		c0 = n0, c1 = (uint32_t)p1, c2 = n2, c3 = (uint32_t)p0;
		k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
	}
	out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

#endif
