/*
 * Sealing: what stepd must keep on disk and no one may read there (signed URLs, training text) is
 * kept encrypted and authenticated under one key of this installation. A copy of the state folder
 * without its key, or of a disk that was thrown away, tells nothing.
 *
 * Every sealed thing is bound to `about`, a text that says what it is and whose ("restore-url
 * <session>"), which is not stored: put in another's place it does not open. Sealed bytes are
 * XChaCha20-Poly1305 with a random nonce, behind a version and the key's id, so that a lost key is
 * told apart from a changed file.
 */
#ifndef SUPERVISOR_STORE_SEAL_H
#define SUPERVISOR_STORE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SEAL_KEY_BYTES = 32,
	SEAL_ID_BYTES = 8,
	SEAL_OVERHEAD = 1 + SEAL_ID_BYTES + 24 + 16, /* version, key id, nonce, tag */
};

struct seal_key {
	uint8_t id[SEAL_ID_BYTES];
	uint8_t bytes_key[SEAL_KEY_BYTES];
};

/* The key: 64 hex digits in <credentials>/seal_key (credentials: $CREDENTIALS_DIRECTORY or NULL),
   else in seal.key of the state folder, a file of mode 0600 that is made where there is none and
   `make` is true. 0; -ENOKEY: there is none, and make is false; else -errno. But for 0, a sentence
   in reason, never the key. */
int seal_key_open(
    struct seal_key *key, int state_fd, const char *credentials, bool make, char reason[256]);
/* Forgets it. */
void seal_key_wipe(struct seal_key *key);

/* Seals len bytes into out, len + SEAL_OVERHEAD bytes. */
void seal_bytes(
    const struct seal_key *key, const char *about, const void *data, size_t len, uint8_t *out);
/* Opens len sealed bytes into out, len - SEAL_OVERHEAD bytes of the caller; out is zeroed where it
   fails. 0; -EKEYREJECTED: sealed under another key; -EPROTO: of a version that is not known;
   -EBADMSG: cut, changed, or about something else. */
int seal_bytes_open(
    const struct seal_key *key, const char *about, const uint8_t *sealed, size_t len, void *out);

/* A sentence for an error of seal_bytes_open. */
const char *seal_reason(int error);

#endif
