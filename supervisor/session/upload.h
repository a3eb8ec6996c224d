/*
 * What a session has uploaded and can be brought back from where the spool is gone: its newest
 * state, and the newest one whose client gave a URL to read it again (restore_url). The URL is a
 * secret, and is kept sealed.
 */
#ifndef SUPERVISOR_SESSION_UPLOAD_H
#define SUPERVISOR_SESSION_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	UPLOAD_VERSION = 1,
	UPLOAD_JOURNAL = 4096, /* steps that the journal is kept for an upload behind the anchor */
	UPLOAD_URL_MAX = 16 * 1024,	   /* bytes, sealed */
	UPLOAD_MAX = UPLOAD_URL_MAX + 256, /* bytes of a record */
};

struct seal_key;
struct session;
struct stepd;

struct upload {
	uint64_t step; /* of the newest state */
	char sha256[65];
	uint64_t url_step; /* of the newest state with a URL */
	char url_sha256[65];
	uint8_t *url; /* sealed; NULL: none */
	size_t url_len;
};

void upload_fini(struct upload *u);
/* The record in the store. Packs into storage of UPLOAD_MAX bytes: the length, or -EMSGSIZE. */
long upload_put(const struct upload *u, void *storage);
/* Owns what it holds afterwards: upload_fini. 0, -EPROTO (written by a newer version), -EBADMSG, or
   -ENOMEM; then it is empty. */
int upload_get(struct upload *u, const void *data, size_t len);

/* A copy that owns its own. 0 or -ENOMEM, then it is empty. */
int upload_copy(struct upload *to, const struct upload *from);
/* The state of `step` was uploaded. url: NULL, or to be sealed. 0, -EMSGSIZE: the URL is too long,
   or -ENOMEM; then nothing is changed. */
int upload_note(struct upload *u, const struct seal_key *key, const char *id, uint64_t step,
    const char sha256[65], const char *url);
/* The URL, to be wiped and freed; or NULL where there is none that opens, with a line in the log.
 */
char *upload_url(const struct upload *u, const struct seal_key *key, const char *id);

/* At the start: gives the sessions their uploads. */
void upload_find_all(struct stepd *stepd);

#endif
