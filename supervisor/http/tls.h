/* The server's side of TLS: 1.2 and newer. */
#ifndef SUPERVISOR_HTTP_TLS_H
#define SUPERVISOR_HTTP_TLS_H

#include <stddef.h>
#include <stdint.h>

struct ssl_ctx_st;

/* A context with that certificate chain and key (PEM files; the key closed to group and others). 0,
   or -EINVAL, -EACCES, -errno with a sentence in reason. */
int tls_open(struct ssl_ctx_st **out, const char *cert, const char *key, char reason[256]);
/* When its certificate ends, Unix seconds, or -1. */
int64_t tls_not_after(const struct ssl_ctx_st *tls);
void tls_close(struct ssl_ctx_st *tls);

#endif
