#include "supervisor/http/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

enum { REASON_MAX = 256 };

static int
fail(char *reason, int rc, const char *what)
{
	unsigned long code = ERR_get_error();
	const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;

	snprintf(
	    reason, REASON_MAX, "%s%s%s", what, text != NULL ? ": " : "", text != NULL ? text : "");
	ERR_clear_error();
	return rc;
}

/* Only HTTP/1.1 is spoken here; a client that offers other protocols too is told so. */
static int
choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
    const unsigned char *offered, unsigned offered_len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto((unsigned char **)out, out_len, ours, sizeof(ours) - 1, offered,
		offered_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	return SSL_TLSEXT_ERR_OK;
}

static int
set_up(SSL_CTX *ctx, const char *cert, const char *key, char *reason)
{
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	/* a connection that ends without a goodbye is still an end: lengths tell what is whole */
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
				     SSL_OP_CIPHER_SERVER_PREFERENCE |
				     SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 1);
	SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
	if (SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1)
		return fail(reason, -EINVAL, "TLS ciphers");
	if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
		return fail(reason, -EINVAL, "STEPD_TLS_CERT");
	if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
		return fail(reason, -EINVAL, "STEPD_TLS_KEY");
	if (SSL_CTX_check_private_key(ctx) != 1)
		return fail(reason, -EINVAL, "STEPD_TLS_KEY does not belong to STEPD_TLS_CERT");
	return 0;
}

int
tls_open(struct ssl_ctx_st **out, const char *cert, const char *key, char reason[256])
{
	struct stat st;
	int rc;

	*out = NULL;
	if (stat(key, &st) != 0) {
		rc = -errno;
		snprintf(reason, REASON_MAX, "STEPD_TLS_KEY: %s", strerror(errno));
		return rc;
	}
	if ((st.st_mode & 077) != 0) {
		snprintf(reason, REASON_MAX,
		    "STEPD_TLS_KEY is open to others: its mode is %04o, not 0600",
		    (unsigned)st.st_mode & 07777);
		return -EACCES;
	}
	*out = SSL_CTX_new(TLS_server_method());
	if (*out == NULL)
		return fail(reason, -ENOMEM, "TLS");
	rc = set_up(*out, cert, key, reason);
	if (rc != 0) {
		SSL_CTX_free(*out);
		*out = NULL;
	}
	return rc;
}

int64_t
tls_not_after(const struct ssl_ctx_st *tls)
{
	const X509 *cert = SSL_CTX_get0_certificate(tls);
	struct tm tm;

	if (cert == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) != 1)
		return -1;
	return (int64_t)timegm(&tm);
}

void
tls_close(struct ssl_ctx_st *tls)
{
	SSL_CTX_free(tls);
}
