#include "supervisor/ctl/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>
#include <sodium.h>

#include "ipc/json_write.h"
#include "supervisor/ctl/verbs.h"

struct client {
	CURL *curl;
	char *url, *ca;
	struct curl_slist *headers; /* of JSON calls */
	char error[CURL_ERROR_SIZE];
	CURLcode options; /* the first that was not taken */
};

struct client *
client_new(const char *url, const char *token, const char *ca)
{
	struct client *c = calloc(1, sizeof(*c));
	char line[1024];

	if (c == NULL)
		return NULL;
	c->curl = curl_easy_init();
	c->url = strdup(url);
	c->ca = ca != NULL ? strdup(ca) : NULL;
	snprintf(line, sizeof(line), "Authorization: Bearer %s", token);
	c->headers = curl_slist_append(NULL, line);
	sodium_memzero(line, sizeof(line));
	if (c->curl == NULL || c->url == NULL || c->headers == NULL ||
	    curl_slist_append(c->headers, "Content-Type: application/json") == NULL) {
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
	curl_slist_free_all(c->headers);
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
		fputs("stepctl: out of memory\n", stderr);
	return c;
}

struct text {
	char *data;
	size_t len;
};

static size_t
take_text(char *data, size_t size, size_t count, void *arg)
{
	struct text *t = arg;
	char *grown = realloc(t->data, t->len + size * count + 1);

	if (grown == NULL)
		return 0;
	memcpy(grown + t->len, data, size * count);
	t->data = grown;
	t->len += size * count;
	t->data[t->len] = '\0';
	return size * count;
}

/* An option of the next transfer, which is not begun unless all of them are taken. */
#define SET(c, option, value)                                                                      \
	((c)->options = (c)->options != CURLE_OK ? (c)->options                                    \
						 : curl_easy_setopt((c)->curl, option, value))

static void
prepare(struct client *c, const char *url)
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

static CURLcode
perform(struct client *c)
{
	return c->options != CURLE_OK ? c->options : curl_easy_perform(c->curl);
}

/* curl's word on a failure, without the URL that some of its messages hold. */
static int
unreachable(const char *doing, CURLcode code)
{
	fprintf(stderr, "stepctl: %s: no answer: %s\n", doing, curl_easy_strerror(code));
	return CTL_UNREACHABLE;
}

int
client_call(
    struct client *c, const char *method, const char *path, const char *body, struct reply *r)
{
	struct text answer = {0};
	char url[2048];
	CURLcode code;

	*r = (struct reply){0};
	snprintf(url, sizeof(url), "%s%s", c->url, path);
	prepare(c, url);
	SET(c, CURLOPT_HTTPHEADER, c->headers);
	SET(c, CURLOPT_CUSTOMREQUEST, method);
	if (body != NULL) {
		SET(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
		SET(c, CURLOPT_POSTFIELDS, body);
	}
	SET(c, CURLOPT_WRITEFUNCTION, take_text);
	SET(c, CURLOPT_WRITEDATA, &answer);
	code = perform(c);
	if (code != CURLE_OK) {
		free(answer.data);
		return unreachable(c->url, code);
	}
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &r->status);
	if (answer.data != NULL)
		json_parse(&r->doc, answer.data, answer.len, NULL);
	free(answer.data);
	return 0;
}

void
reply_fini(struct reply *r)
{
	json_free(r->doc);
	*r = (struct reply){0};
}

struct json
reply_json(const struct reply *r)
{
	return r->doc == NULL ? (struct json){NULL, 0} : json_root(r->doc);
}

void
client_print_text(FILE *to, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
		/* C0, DEL, and C1 as UTF-8 has it */
		if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)) {
			putc('?', to);
			p += *p == 0xc2;
		} else {
			putc(*p, to);
		}
	}
}

void
reply_print(const struct reply *r, const char *doing)
{
	struct json detail = json_get(reply_json(r), "detail");
	const char *sentence = json_string(detail, NULL);

	if (sentence != NULL) {
		fprintf(stderr, "stepctl: %s: ", doing);
		client_print_text(stderr, sentence);
		fprintf(stderr, " (HTTP %ld)\n", r->status);
		return;
	}
	fprintf(stderr, "stepctl: %s: HTTP %ld\n", doing, r->status);
	json_foreach (fault, detail) {
		const char *msg = json_string(json_get(fault, "msg"), NULL), *place;
		struct json_writer where;

		json_writer_init(&where);
		json_write_value(&where, json_get(fault, "loc"));
		place = json_writer_text(&where, NULL);
		fputs("  ", stderr);
		client_print_text(stderr, place != NULL ? place : "?");
		fputs(": ", stderr);
		client_print_text(stderr, msg != NULL ? msg : "?");
		putc('\n', stderr);
		json_writer_fini(&where);
	}
}

int
client_expect(struct client *c, const char *doing, const char *method, const char *path,
    const char *body, struct reply *r)
{
	int code = client_call(c, method, path, body, r);

	if (code != 0)
		return code;
	if (r->status >= 200 && r->status < 300)
		return 0;
	reply_print(r, doing);
	reply_fini(r);
	return CTL_REFUSED;
}

/* Ends a transfer: what the service said of it. */
static int
transfer_outcome(struct client *c, const char *doing, CURLcode code)
{
	long status = 0;

	if (code == CURLE_WRITE_ERROR || code == CURLE_READ_ERROR) {
		fprintf(stderr, "stepctl: %s: %s\n", doing, strerror(errno));
		return CTL_FAILED;
	}
	if (code != CURLE_OK)
		return unreachable(doing, code);
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 200 && status < 300)
		return 0;
	fprintf(stderr, "stepctl: %s: HTTP %ld\n", doing, status);
	return CTL_REFUSED;
}

int
client_put_file(struct client *c, const char *url, const char *path)
{
	char doing[512];
	struct curl_slist *headers;
	struct stat st;
	FILE *f = fopen(path, "re");
	CURLcode code;

	if (f == NULL || fstat(fileno(f), &st) != 0) {
		fprintf(stderr, "stepctl: %s: %s\n", path, strerror(errno));
		if (f != NULL)
			fclose(f);
		return CTL_USAGE;
	}
	snprintf(doing, sizeof(doing), "sending %s", path);
	headers = curl_slist_append(NULL, "Content-Type: application/octet-stream");
	prepare(c, url);
	SET(c, CURLOPT_UPLOAD, 1L);
	SET(c, CURLOPT_READDATA, f);
	SET(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)st.st_size);
	SET(c, CURLOPT_HTTPHEADER, headers);
	code = perform(c);
	curl_slist_free_all(headers);
	fclose(f);
	return transfer_outcome(c, doing, code);
}

struct download {
	FILE *file;
	crypto_hash_sha256_state hash;
};

static size_t
take_file(char *data, size_t size, size_t count, void *arg)
{
	struct download *d = arg;

	crypto_hash_sha256_update(&d->hash, (const unsigned char *)data, size * count);
	return fwrite(data, size, count, d->file) * size;
}

/* Closes f and gives it its name; CTL_FAILED after a line on stderr. */
static int
keep_file(FILE *f, const char *part, const char *path)
{
	int error = ferror(f) ? EIO : 0;

	if (fflush(f) != 0 || fsync(fileno(f)) != 0)
		error = errno;
	if (fclose(f) != 0 && error == 0)
		error = errno;
	if (error == 0 && rename(part, path) != 0)
		error = errno;
	if (error == 0)
		return 0;
	fprintf(stderr, "stepctl: writing %s: %s\n", path, strerror(error));
	unlink(part);
	return CTL_FAILED;
}

int
client_get_file(struct client *c, const char *url, const char *path, char sha256[65])
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	char part[4096], doing[512];
	struct download d;
	CURLcode code;
	int rc;

	if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part)) {
		fprintf(stderr, "stepctl: %s: %s\n", path, strerror(ENAMETOOLONG));
		return CTL_USAGE;
	}
	d.file = fopen(part, "we");
	if (d.file == NULL) {
		fprintf(stderr, "stepctl: writing %s: %s\n", path, strerror(errno));
		return CTL_FAILED;
	}
	crypto_hash_sha256_init(&d.hash);
	snprintf(doing, sizeof(doing), "fetching %s", path);
	prepare(c, url);
	SET(c, CURLOPT_WRITEFUNCTION, take_file);
	SET(c, CURLOPT_WRITEDATA, &d);
	code = perform(c);
	rc = transfer_outcome(c, doing, code);
	if (rc != 0) {
		fclose(d.file);
		unlink(part);
		return rc;
	}
	crypto_hash_sha256_final(&d.hash, digest);
	sodium_bin2hex(sha256, 65, digest, sizeof(digest));
	return keep_file(d.file, part, path);
}
