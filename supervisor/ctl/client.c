#include "supervisor/ctl/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "supervisor/ctl/client_part.h"
#include "supervisor/ctl/verbs.h"

struct client *
client_new(const char *url, const char *token, const char *ca)
{
	struct client *c = calloc(1, sizeof(*c));
	unsigned char random[16];

	if (c == NULL)
		return NULL;
	c->curl = curl_easy_init();
	c->url = strdup(url);
	c->ca = ca != NULL ? strdup(ca) : NULL;
	if (asprintf(&c->token, "Authorization: Bearer %s", token) < 0)
		c->token = NULL;
	randombytes_buf(random, sizeof(random));
	sodium_bin2hex(c->run, sizeof(c->run), random, sizeof(random));
	if (c->curl == NULL || c->url == NULL || c->token == NULL ||
	    (ca != NULL && c->ca == NULL)) {
		client_free(c);
		return NULL;
	}
	while (strlen(c->url) > 0 && c->url[strlen(c->url) - 1] == '/')
		c->url[strlen(c->url) - 1] = '\0';
	return c;
}

void
client_free(struct client *c)
{
	if (c == NULL)
		return;
	if (c->curl != NULL)
		curl_easy_cleanup(c->curl);
	if (c->token != NULL)
		sodium_memzero(c->token, strlen(c->token));
	free(c->token);
	free(c->url);
	free(c->ca);
	free(c);
}

/* The first line of a token file, or -1 after a line on stderr. */
static int
read_token(const char *path, char *token, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t len;

	if (f == NULL || fgets(token, (int)size, f) == NULL) {
		fprintf(stderr, "stepctl: %s: %s\n", path,
		    f == NULL ? strerror(errno) : "no token in it");
		if (f != NULL)
			fclose(f);
		return -1;
	}
	fclose(f);
	len = strcspn(token, "\r\n");
	token[len] = '\0';
	return 0;
}

struct client *
client_from_options(const struct ctl_arguments *a)
{
	const char *url = ctl_value(a, "url"), *file = ctl_value(a, "token-file");
	const char *environment = getenv("TRAINER_TOKEN");
	char token[600];
	struct client *c;

	if (url == NULL)
		url = getenv("STEPD_URL");
	if (url == NULL || (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0)) {
		fprintf(stderr, "stepctl: give the service as --url https://host[:port]%s\n",
		    url == NULL ? "" : "; the one given is no http URL");
		return NULL;
	}
	if (file != NULL) {
		if (read_token(file, token, sizeof(token)) != 0)
			return NULL;
	} else if (environment != NULL && strlen(environment) < sizeof(token)) {
		strcpy(token, environment);
	} else {
		fputs("stepctl: no token: give --token-file or set TRAINER_TOKEN\n", stderr);
		return NULL;
	}
	c = client_new(url, token, ctl_value(a, "ca"));
	sodium_memzero(token, sizeof(token));
	if (c == NULL)
		ctl_out_of_memory();
	return c;
}

void
client_prepare(struct client *c, const char *url)
{
	curl_easy_reset(c->curl);
	c->error[0] = '\0';
	c->options = CURLE_OK;
	SET(c, CURLOPT_URL, url);
	SET(c, CURLOPT_PROTOCOLS_STR, "http,https");
	SET(c, CURLOPT_ERRORBUFFER, c->error);
	SET(c, CURLOPT_NOSIGNAL, 1L);
	SET(c, CURLOPT_CONNECTTIMEOUT, 30L);
	SET(c, CURLOPT_TCP_KEEPALIVE, 1L);
	if (c->ca != NULL)
		SET(c, CURLOPT_CAINFO, c->ca);
}

CURLcode
client_perform(struct client *c)
{
	return c->options != CURLE_OK ? c->options : curl_easy_perform(c->curl);
}

int
client_unreachable(const char *doing, CURLcode code)
{
	fprintf(stderr, "stepctl: %s: no answer: %s\n", doing, curl_easy_strerror(code));
	return CTL_UNREACHABLE;
}

bool
client_may_pass(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_PARTIAL_FILE:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_WEIRD_SERVER_REPLY:
		return true;
	default:
		return false;
	}
}

void
client_patience(struct client *c, unsigned seconds, const volatile sig_atomic_t *stop)
{
	c->patience = (struct patience){.seconds = seconds, .stop = stop};
}
