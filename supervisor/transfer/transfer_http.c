#include "supervisor/transfer/transfer_http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/file.h"

/* What is read and dropped of an answer that is no artifact. */
enum { IGNORE_LIMIT = 1 << 20, BUFFER = 256 * 1024 };

static curl_socket_t
open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct transfer_http *h = arg;

	(void)purpose;
	if (!egress_allows(h->egress, h->host, &address->addr)) {
		h->refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t
send_part(char *buffer, size_t size, size_t count, void *arg)
{
	struct transfer_http *h = arg;
	size_t want = size * count;
	ssize_t n;

	if (want > h->limit - h->moved)
		want = (size_t)(h->limit - h->moved);
	if (want == 0)
		return 0;
	n = pread(h->fd, buffer, want, (off_t)h->moved);
	if (n <= 0) {
		h->error = n < 0 ? -errno : -EIO; /* shorter than it was */
		return CURL_READFUNC_ABORT;
	}
	crypto_hash_sha256_update(&h->hash, (const unsigned char *)buffer, (size_t)n);
	h->moved += (uint64_t)n;
	return (size_t)n;
}

/* libcurl sends again from the start when a connection turns out dead before the answer. */
static int
rewind_part(void *arg, curl_off_t offset, int origin)
{
	struct transfer_http *h = arg;

	if (origin != SEEK_SET || offset != 0)
		return CURL_SEEKFUNC_FAIL;
	h->moved = 0;
	crypto_hash_sha256_init(&h->hash);
	return CURL_SEEKFUNC_OK;
}

static size_t
drop_part(struct transfer_http *h, size_t len)
{
	h->ignored += len;
	return h->ignored > IGNORE_LIMIT ? 0 : len;
}

static size_t
take_part(char *data, size_t size, size_t count, void *arg)
{
	struct transfer_http *h = arg;
	size_t len = size * count;
	long status = 0;

	curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
	if (h->direction == TRANSFER_PUT || status != 200)
		return drop_part(h, len);
	if (len > h->limit - h->moved) {
		h->error = -EFBIG;
		return 0;
	}
	h->error = file_write_at(h->fd, data, len, h->moved);
	if (h->error != 0)
		return 0;
	crypto_hash_sha256_update(&h->hash, (const unsigned char *)data, len);
	h->moved += len;
	return len;
}

/* An answer that only ends with the connection cannot be told from one that was cut. */
static size_t
take_header(char *line, size_t size, size_t count, void *arg)
{
	struct transfer_http *h = arg;
	size_t len = size * count;

	if ((len > 15 && strncasecmp(line, "content-length:", 15) == 0) ||
	    (len > 18 && strncasecmp(line, "transfer-encoding:", 18) == 0))
		h->framed = true;
	return len;
}

/* The URL's host, for the rules; only https passes. 0, -EINVAL or -ENOMEM. */
static int
read_host(struct transfer_http *h, const char *url)
{
	CURLU *parts = curl_url();
	char *scheme = NULL;
	int error = -EINVAL;

	if (parts == NULL)
		return -ENOMEM;
	if (curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	    strcmp(scheme, "https") == 0 &&
	    curl_url_get(parts, CURLUPART_HOST, &h->host, 0) == CURLUE_OK)
		error = 0;
	curl_free(scheme);
	curl_url_cleanup(parts);
	return error;
}

/* Those that libcurl copies need memory: one that does not hold is a rule that does not. */
#define SET(easy, option, value) bad |= curl_easy_setopt(easy, option, value) != CURLE_OK

static int
set_rules(CURL *easy, const struct transfer_limits *limits)
{
	bool bad = false;

#if LIBCURL_VERSION_NUM >= 0x075500
	SET(easy, CURLOPT_PROTOCOLS_STR, "https");
#else
	SET(easy, CURLOPT_PROTOCOLS, (long)CURLPROTO_HTTPS);
#endif
	SET(easy, CURLOPT_FOLLOWLOCATION, 0L);
	SET(easy, CURLOPT_PROXY, "");
	SET(easy, CURLOPT_NOPROXY, "*");
	SET(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	SET(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	SET(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	if (limits->ca_file != NULL)
		SET(easy, CURLOPT_CAINFO, limits->ca_file);
	/* A kept connection would pass the address rules only once. */
	SET(easy, CURLOPT_FRESH_CONNECT, 1L);
	SET(easy, CURLOPT_FORBID_REUSE, 1L);
	SET(easy, CURLOPT_NOSIGNAL, 1L);
	SET(easy, CURLOPT_CONNECTTIMEOUT, limits->connect_seconds);
	SET(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
	SET(easy, CURLOPT_LOW_SPEED_TIME, limits->stall_seconds);
	SET(easy, CURLOPT_TIMEOUT, limits->total_seconds);
	SET(easy, CURLOPT_BUFFERSIZE, (long)BUFFER);
	SET(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER);
	return bad ? -ENOMEM : 0;
}

/* What a PUT sends. 0 or -ENOMEM. */
static int
set_upload(struct transfer_http *h)
{
	static const char *const lines[] = {
	    "Content-Type: application/octet-stream",
	    "Expect:", /* not every store knows 100-continue */
	};

	bool bad = false;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct curl_slist *list = curl_slist_append(h->headers, lines[i]);

		if (list == NULL)
			return -ENOMEM;
		h->headers = list;
	}
	SET(h->easy, CURLOPT_HTTPHEADER, h->headers);
	SET(h->easy, CURLOPT_UPLOAD, 1L);
	SET(h->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)h->limit);
	SET(h->easy, CURLOPT_READFUNCTION, send_part);
	SET(h->easy, CURLOPT_READDATA, h);
	SET(h->easy, CURLOPT_SEEKFUNCTION, rewind_part);
	SET(h->easy, CURLOPT_SEEKDATA, h);
	return bad ? -ENOMEM : 0;
}

int
transfer_http_init(struct transfer_http *h, enum transfer_direction direction, const char *url,
    int fd, uint64_t limit, const struct egress *egress, const struct transfer_limits *limits,
    void *priv)
{
	bool bad;
	int error;

	*h = (struct transfer_http){.direction = direction, .fd = fd, .limit = limit};
	h->egress = egress;
	crypto_hash_sha256_init(&h->hash);
	error = read_host(h, url);
	if (error != 0)
		return error;
	h->easy = curl_easy_init();
	if (h->easy == NULL || curl_easy_setopt(h->easy, CURLOPT_URL, url) != CURLE_OK)
		return -ENOMEM;
	bad = set_rules(h->easy, limits) != 0;
	SET(h->easy, CURLOPT_PRIVATE, priv);
	SET(h->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(h->easy, CURLOPT_OPENSOCKETDATA, h);
	SET(h->easy, CURLOPT_WRITEFUNCTION, take_part);
	SET(h->easy, CURLOPT_WRITEDATA, h);
	SET(h->easy, CURLOPT_HEADERFUNCTION, take_header);
	SET(h->easy, CURLOPT_HEADERDATA, h);
	if (direction == TRANSFER_GET)
		SET(h->easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)limit);
	if (bad)
		return -ENOMEM;
	return direction == TRANSFER_PUT ? set_upload(h) : 0;
}

void
transfer_http_result(struct transfer_http *h, CURLcode code, struct transfer_result *result)
{
	uint8_t digest[crypto_hash_sha256_BYTES];
	long status = 0;

	curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
	result->status = (unsigned)status;
	result->size = h->moved;
	result->reason = curl_easy_strerror(code);
	if (h->refused && code == CURLE_COULDNT_CONNECT) {
		result->error = -EACCES;
		result->reason = "the address is not allowed";
	} else if (h->error != 0) {
		result->error = h->error;
		result->reason = strerror(-h->error);
	} else if (code == CURLE_FILESIZE_EXCEEDED && status / 100 == 2) {
		result->error = -EFBIG;
	} else if (code == CURLE_OPERATION_TIMEDOUT) {
		result->error = -ETIMEDOUT;
	} else if (status != 0 && status / 100 != 2) {
		result->error = -EREMOTEIO;
		result->reason = "the other side answered with an error";
	} else if (code != CURLE_OK) {
		result->error = -EREMOTEIO;
	} else if (h->direction == TRANSFER_PUT && h->moved != h->limit) {
		result->error = -EREMOTEIO;
		result->reason = "the other side answered before it had everything";
	} else if (h->direction == TRANSFER_GET && (status != 200 || !h->framed)) {
		result->error = -EREMOTEIO;
		result->reason = "the answer is not a whole file of a known length";
	}
	if (result->error != 0)
		return;
	crypto_hash_sha256_final(&h->hash, digest);
	sodium_bin2hex(result->sha256, sizeof(result->sha256), digest, sizeof(digest));
}

void
transfer_http_fini(struct transfer_http *h)
{
	curl_easy_cleanup(h->easy);
	curl_slist_free_all(h->headers);
	curl_free(h->host);
	h->easy = NULL;
	h->headers = NULL;
	h->host = NULL;
}
