/*
 * The chunked coding of a body, strictly: sizes in hex, CR LF everywhere, extensions and trailers
 * read past within bounds. A decoder holds no bytes.
 */
#ifndef SUPERVISOR_HTTP_HTTP_CHUNK_H
#define SUPERVISOR_HTTP_HTTP_CHUNK_H

#include <stddef.h>
#include <stdint.h>

struct http_chunk { /* zero it for each body */
	unsigned state;
	unsigned digits; /* of the size so far */
	unsigned spent;	 /* bytes of extensions and trailers */
	uint64_t left;	 /* of the chunk */
};

/* Takes bytes from data up to a piece of the body. *used: how many; *piece, *piece_len: the part of
   them that is body (length 0: none). 1: the body has ended; 0: call again with what follows, or
   with more; -1: not the chunked coding. */
int http_chunk_next(struct http_chunk *c, const void *data, size_t len, size_t *used,
    const void **piece, size_t *piece_len);

#endif
