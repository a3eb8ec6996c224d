/* Files to and from signed URLs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "supervisor/ctl/client_part.h"
#include "supervisor/ctl/verbs.h"

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
		return client_unreachable(doing, code);
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 200 && status < 300)
		return 0;
	fprintf(stderr, "stepctl: %s: HTTP %ld\n", doing, status);
	return CTL_REFUSED;
}

/* Whether the transfer that ended so is worth another try, which is due now. */
static bool
try_again(struct client *c, const char *doing, CURLcode code)
{
	long status = 0;
	char why[640];

	if (code == CURLE_OK) {
		curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
		if (status < 502 || status > 504) {
			patience_over(&c->patience);
			return false;
		}
		snprintf(why, sizeof(why), "%s: HTTP %ld", doing, status);
	} else {
		snprintf(why, sizeof(why), "%s: no answer: %s", doing, curl_easy_strerror(code));
	}
	return c->answered && (code == CURLE_OK || client_may_pass(code)) &&
	       patience_wait(&c->patience, why, 0);
}

static CURLcode
put(struct client *c, const char *url, FILE *f, off_t size)
{
	struct curl_slist *headers =
	    curl_slist_append(NULL, "Content-Type: application/octet-stream");
	CURLcode code;

	rewind(f);
	client_prepare(c, url);
	SET(c, CURLOPT_UPLOAD, 1L);
	SET(c, CURLOPT_READDATA, f);
	SET(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
	SET(c, CURLOPT_HTTPHEADER, headers);
	code = client_perform(c);
	curl_slist_free_all(headers);
	return code;
}

int
client_put_file(struct client *c, const char *url, const char *path)
{
	char doing[512];
	struct stat st;
	FILE *f = fopen(path, "re");
	CURLcode code;
	long status = 0;
	int tries = 0;

	if (f == NULL || fstat(fileno(f), &st) != 0) {
		fprintf(stderr, "stepctl: %s: %s\n", path, strerror(errno));
		if (f != NULL)
			fclose(f);
		return CTL_USAGE;
	}
	snprintf(doing, sizeof(doing), "sending %s", path);
	do {
		code = put(c, url, f, st.st_size);
		tries++;
	} while (try_again(c, doing, code));
	fclose(f);
	if (code == CURLE_OK)
		curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	/* An object is put whole or not at all, and once: the answer to an earlier try was lost. */
	if (tries > 1 && status == 409)
		return 0;
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

/* From the first byte on, whatever came before. */
static CURLcode
get(struct client *c, const char *url, struct download *d)
{
	rewind(d->file);
	if (ftruncate(fileno(d->file), 0) != 0)
		return CURLE_WRITE_ERROR;
	crypto_hash_sha256_init(&d->hash);
	client_prepare(c, url);
	SET(c, CURLOPT_WRITEFUNCTION, take_file);
	SET(c, CURLOPT_WRITEDATA, d);
	return client_perform(c);
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
	snprintf(doing, sizeof(doing), "fetching %s", path);
	do
		code = get(c, url, &d);
	while (try_again(c, doing, code));
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
