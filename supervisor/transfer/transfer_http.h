/*
 * One HTTPS exchange of an artifact, as libcurl makes it: every option that keeps it inside the
 * rules of transfer.h, and the digest of the bytes that pass.
 */
#ifndef SUPERVISOR_TRANSFER_TRANSFER_HTTP_H
#define SUPERVISOR_TRANSFER_TRANSFER_HTTP_H

#include <curl/curl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>

#include "supervisor/transfer/egress.h"
#include "supervisor/transfer/transfer.h"

struct transfer_limits {
	const char *ca_file; /* NULL: the system's certificates only */
	long connect_seconds, stall_seconds, total_seconds;
};

struct transfer_http {
	CURL *easy;
	struct curl_slist *headers;
	const struct egress *egress;
	char *host;	/* of the URL */
	int fd;		/* read or written at `moved`; the owner's */
	uint64_t limit; /* PUT: the size; GET: the most that is taken */
	uint64_t moved;
	uint64_t ignored; /* bytes of an answer nobody wants */
	enum transfer_direction direction;
	bool framed;  /* the answer tells where it ends */
	bool refused; /* an address was not allowed */
	int error;    /* of our own side, seen in a callback */
	crypto_hash_sha256_state hash;
};

/* Makes the handle; priv is its CURLOPT_PRIVATE. 0, -EINVAL (no https URL), or -ENOMEM. On failure
   transfer_http_fini is still owed. */
int transfer_http_init(struct transfer_http *h, enum transfer_direction direction, const char *url,
    int fd, uint64_t limit, const struct egress *egress, const struct transfer_limits *limits,
    void *priv);
/* Fills a result (but fd) after libcurl ended with code. */
void transfer_http_result(struct transfer_http *h, CURLcode code, struct transfer_result *result);
void transfer_http_fini(struct transfer_http *h);

#endif
