/*
 * A first byte that chooses, and any bytes as a URL of a client: refused, or normalized into one
 * that reads back the same and names the host that libcurl will ask. As the list of where transfers
 * may go. As changes to a signed URL of our object store, none of which is taken.
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "supervisor/store/object_url.h"
#include "supervisor/transfer/egress.h"
#include "supervisor/transfer/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What libcurl makes of it, where it takes it at all. */
static void
check_host(const struct url *url)
{
	CURLU *parts = curl_url();
	char *host = NULL;

	if (curl_url_set(parts, CURLUPART_URL, url->text, 0) == CURLUE_OK) {
		if (curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK)
			abort();
		if (!url->is_ipv6 && strcasecmp(host, url->host) != 0)
			abort();
	}
	curl_free(host);
	curl_url_cleanup(parts);
}

static void
check_url(const uint8_t *data, size_t size)
{
	static struct url url, again;

	if (url_parse(&url, (const char *)data, size) != URL_OK)
		return;
	if (url.host[0] == '\0' || strlen(url.text) >= URL_MAX ||
	    strncmp(url.text, url.plain ? "http://" : "https://", 7) != 0)
		abort();
	for (const char *c = url.text; *c != '\0'; c++)
		if (*c <= ' ' || *c >= 0x7f)
			abort();
	/* One that grew over the limit of what is given is not read again. */
	if (strlen(url.text) <= URL_GIVEN_MAX &&
	    (url_parse(&again, url.text, strlen(url.text)) != URL_OK ||
		strcmp(url.text, again.text) != 0 || strcmp(url.host, again.host) != 0 ||
		url.port != again.port))
		abort();
	check_host(&url);
}

static void
check_list(const uint8_t *data, size_t size)
{
	struct sockaddr_in loopback = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char *list = strndup((const char *)data, size), bad[64];
	struct egress egress = {0};

	if (egress_init(&egress, list, bad, sizeof(bad)) == 0) {
		egress_allows(&egress, "example.org", (struct sockaddr *)&loopback);
		egress_allows(&egress, "[::1]", (struct sockaddr *)&loopback);
		if (egress.count == 0 &&
		    egress_allows(&egress, "localhost", (struct sockaddr *)&loopback))
			abort();
	}
	egress_fini(&egress);
	free(list);
}

/* Pairs of place and byte, put into a URL that is good. */
static void
check_signed(const uint8_t *data, size_t size)
{
	static const unsigned char key[OBJECT_KEY_BYTES] = "no key of anybody's object store";
	struct object_ref ref = {.id = "0123456789abcdef0123456789abcdef", .limit = 1 << 30}, back;
	char good[OBJECT_URL_MAX], url[OBJECT_URL_MAX];
	size_t len, base;

	ref.verb = OBJECT_PUT;
	if (object_url_sign(good, key, "https://h", &ref, 2000000000) != 0)
		abort();
	strcpy(url, good);
	len = strlen(url);
	for (size_t i = 0; i + 1 < size; i += 2)
		if (data[i + 1] != '\0')
			url[data[i] % len] = (char)data[i + 1];
	if (object_url_read(&back, key, OBJECT_PUT, url, 1900000000, &base) == 0 &&
	    (base > len || strcmp(url + base, good + strlen("https://h")) != 0))
		abort();
	if (object_url_read(&back, key, OBJECT_GET, url, 1900000000, &base) == 0)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(const uint8_t *, size_t) = {
	    check_url, check_list, check_signed};

	if (size > 0)
		checks[data[0] % (sizeof(checks) / sizeof(*checks))](data + 1, size - 1);
	return 0;
}
