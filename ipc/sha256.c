#include "ipc/sha256.h"

#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

/* FIPS 180-4, section 4.2.2. */
static const uint32_t round_constants[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5,
    0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5,
    0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static bool
has_instructions(void)
{
	static _Atomic int known; /* 0 = not asked yet; every thread finds the same */
	unsigned a, b, c, d;

	if (known == 0) {
		bool sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
		bool sse = __get_cpuid(1, &a, &b, &c, &d) && (c & 1u << 19) && (c & 1u << 9);

		known = sha && sse ? 1 : -1;
	}
	return known > 0;
}

/* The message schedule and four rounds at a time; the state lies as ABEF and CDGH, as the
   instructions want it (Gulley et al. 2013, "Intel SHA Extensions"). */
__attribute__((target("sha,sse4.1,ssse3"))) static void
compress(uint32_t state[8], const unsigned char *data, size_t blocks)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
	__m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
	__m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
	__m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
	__m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
	__m128i feba, dchg;

	for (; blocks-- != 0; data += 64) {
		__m128i abef_before = abef, cdgh_before = cdgh, w[4];

#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			__m128i k = _mm_loadu_si128((const __m128i *)(round_constants + 4 * i));
			__m128i *now = &w[i % 4];

			if (i < 4) {
				*now = _mm_loadu_si128((const __m128i *)(data + 16 * i));
				*now = _mm_shuffle_epi8(*now, swap);
			} else {
				__m128i before = w[(i + 3) % 4];

				*now = _mm_sha256msg1_epu32(*now, w[(i + 1) % 4]);
				*now =
				    _mm_add_epi32(*now, _mm_alignr_epi8(before, w[(i + 2) % 4], 4));
				*now = _mm_sha256msg2_epu32(*now, before);
			}
			k = _mm_add_epi32(k, *now);
			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
		}
		abef = _mm_add_epi32(abef, abef_before);
		cdgh = _mm_add_epi32(cdgh, cdgh_before);
	}
	feba = _mm_shuffle_epi32(abef, 0x1b);
	dchg = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#else
static bool
has_instructions(void)
{
	return false;
}

static void
compress(uint32_t state[8], const unsigned char *data, size_t blocks)
{
	(void)state, (void)data, (void)blocks;
}
#endif

void
sha256_init(struct sha256 *s)
{
	static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

	s->size = 0;
	memcpy(s->state, start, sizeof(start));
	if (!has_instructions())
		crypto_hash_sha256_init(&s->portable);
}

void
sha256_update(struct sha256 *s, const void *data, size_t len)
{
	const unsigned char *p = data;
	size_t fill = s->size % sizeof(s->block), blocks;

	s->size += len;
	if (!has_instructions()) {
		crypto_hash_sha256_update(&s->portable, p, len);
		return;
	}
	if (fill != 0) {
		size_t n = sizeof(s->block) - fill < len ? sizeof(s->block) - fill : len;

		memcpy(s->block + fill, p, n);
		p += n;
		len -= n;
		if (fill + n < sizeof(s->block))
			return;
		compress(s->state, s->block, 1);
	}
	blocks = len / sizeof(s->block);
	compress(s->state, p, blocks);
	memcpy(s->block, p + blocks * sizeof(s->block), len % sizeof(s->block));
}

void
sha256_final(struct sha256 *s, unsigned char digest[32])
{
	unsigned char pad[72] = {0x80};
	uint64_t bits = s->size * 8;
	size_t fill = s->size % 64, len = (fill < 56 ? 56 : 120) - fill;

	if (!has_instructions()) {
		crypto_hash_sha256_final(&s->portable, digest);
		return;
	}
	for (size_t i = 0; i < 8; i++)
		pad[len + i] = (unsigned char)(bits >> (56 - 8 * i));
	sha256_update(s, pad, len + 8);
	for (size_t i = 0; i < 32; i++)
		digest[i] = (unsigned char)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void
sha256_final_hex(struct sha256 *s, char hex[65])
{
	unsigned char digest[32];

	sha256_final(s, digest);
	sodium_bin2hex(hex, 65, digest, sizeof(digest));
}
