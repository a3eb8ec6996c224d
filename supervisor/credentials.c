#include "supervisor/credentials.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/http/backoff.h"
#include "supervisor/http/http_server.h"
#include "supervisor/http/selfsign.h"
#include "supervisor/http/tls.h"
#include "supervisor/http/tokens.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"

static bool
is_automatic(const struct config *c)
{
	return c->tls_cert != NULL && strcmp(c->tls_cert, "auto") == 0;
}

int
credentials_check(const struct config *c, char reason[512])
{
	struct ssl_ctx_st *tls = NULL;
	struct tokens *tokens = NULL;
	char why[256];
	int rc = tokens_read(&tokens, c, why);

	if (rc == 0 && c->tls_cert != NULL && !is_automatic(c))
		rc = tls_open(&tls, c->tls_cert, c->tls_key, why);
	if (rc != 0)
		snprintf(reason, 512, "%s", why);
	tls_close(tls);
	tokens_free(tokens);
	return rc == 0 ? 0 : -EINVAL;
}

/* *out: NULL for plain HTTP. */
static int
read_tls(struct stepd *s, struct ssl_ctx_st **out, char reason[256])
{
	const struct config *c = s->config;
	char cert[4200], key[4200];
	int rc;

	*out = NULL;
	if (c->tls_cert == NULL)
		return 0;
	if (!is_automatic(c))
		return tls_open(out, c->tls_cert, c->tls_key, reason);
	rc = selfsign_prepare(s->state_fd);
	snprintf(reason, 256, "self-signed certificate: %s", strerror(-rc));
	snprintf(cert, sizeof(cert), "%s/%s", c->state_dir, SELFSIGN_CERT);
	snprintf(key, sizeof(key), "%s/%s", c->state_dir, SELFSIGN_KEY);
	return rc == 0 ? tls_open(out, cert, key, reason) : rc;
}

int
credentials_open(struct stepd *s)
{
	char reason[256];
	int rc = read_tls(s, &s->tls, reason);

	if (rc == 0)
		rc = tokens_read(&s->tokens, s->config, reason);
	if (rc != 0) {
		log_error("%s", reason);
		return rc;
	}
	s->backoff = backoff_new();
	return s->backoff != NULL ? 0 : -ENOMEM;
}

/* The settings are read again for TRAINER_TOKEN_FILE; of them only the tokens count. */
static void
reload_tokens(struct stepd *s)
{
	char error[CONFIG_ERROR_MAX], reason[256] = "";
	struct tokens *fresh = NULL;
	struct config c;
	int rc = config_load(&c, environ, error);

	if (rc != 0)
		snprintf(reason, sizeof(reason), "%.255s", error);
	else
		rc = tokens_read(&fresh, &c, reason);
	if (rc != 0) {
		log_error("the tokens stay as they are: %s", reason);
	} else {
		tokens_free(s->tokens);
		s->tokens = fresh;
		log_info("tokens read again: %zu", tokens_count(fresh));
	}
	config_fini(&c);
}

static void
reload_tls(struct stepd *s)
{
	struct ssl_ctx_st *fresh;
	char reason[256];

	if (s->tls == NULL)
		return;
	if (read_tls(s, &fresh, reason) != 0) {
		log_error("the certificate stays as it is: %s", reason);
		return;
	}
	http_server_set_tls(s->http, fresh);
	tls_close(s->tls);
	s->tls = fresh;
	log_info("certificate read again");
}

void
credentials_reload(struct stepd *s)
{
	reload_tokens(s);
	reload_tls(s);
}

void
credentials_close(struct stepd *s)
{
	tls_close(s->tls);
	s->tls = NULL;
	tokens_free(s->tokens);
	s->tokens = NULL;
	backoff_free(s->backoff);
	s->backoff = NULL;
}
