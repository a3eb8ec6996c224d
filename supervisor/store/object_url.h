/*
 * Signed URLs of the object store: <base>/v1/objects/<id>?expires=<unix seconds>&limit=<bytes>&
 * signature=<64 hex digits>. The signature is a keyed hash over verb, id, expiry and limit. The
 * base is not signed: clients behind proxies and tunnels know the same stepd by other names.
 */
#ifndef SUPERVISOR_STORE_OBJECT_URL_H
#define SUPERVISOR_STORE_OBJECT_URL_H

#include <stddef.h>
#include <stdint.h>

#include "supervisor/store/objects.h"

enum { OBJECT_KEY_BYTES = 32, OBJECT_URL_MAX = 2048 };

/* Writes the URL of ref. 0, or -ENAMETOOLONG. */
int object_url_sign(char out[OBJECT_URL_MAX], const unsigned char key[OBJECT_KEY_BYTES],
    const char *base, const struct object_ref *ref, int64_t expires);
/* Judges the parts of a URL as they came (NULL: missing): 0 and *ref filled; -EACCES: not signed by
   this key for this verb; -ESTALE: it was, and has expired at `now`. */
int object_url_verify(struct object_ref *ref, const unsigned char key[OBJECT_KEY_BYTES],
    enum object_verb verb, const char *id, const char *expires, const char *limit,
    const char *signature, int64_t now);
/* Takes a whole URL apart and judges it, as above; -ENOENT: it is not of the form. *base_len: the
   length of what comes before the path. */
int object_url_read(struct object_ref *ref, const unsigned char key[OBJECT_KEY_BYTES],
    enum object_verb verb, const char *url, int64_t now, size_t *base_len);

#endif
