/*
 * SHA-256 over large files. libsodium's is portable C (some 200 MB/s); where the processor has the
 * SHA instructions they are used instead, which makes the digest of an artifact or of a base model
 * a matter of reading it. Same digest either way.
 */
#ifndef IPC_SHA256_H
#define IPC_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include <sodium.h>

struct sha256 {
	crypto_hash_sha256_state portable; /* without the instructions */
	uint32_t state[8];		   /* with them */
	uint64_t size;			   /* bytes so far */
	unsigned char block[64];	   /* the part of a block that waits */
};

void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *data, size_t len);
/* Lower-case hex and a NUL. The state is used up. */
void sha256_final_hex(struct sha256 *s, char hex[65]);
void sha256_final(struct sha256 *s, unsigned char digest[32]);

#endif
