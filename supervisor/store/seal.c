#include "supervisor/store/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/state.h"

enum {
	VERSION = 1,
	REASON_MAX = 256,
	HEX = 2 * SEAL_KEY_BYTES,
	PREFIX = 1 + SEAL_ID_BYTES,
	NONCE = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
	TAG = crypto_aead_xchacha20poly1305_ietf_ABYTES,
};

_Static_assert(SEAL_OVERHEAD == PREFIX + NONCE + TAG, "what seal.h says");
_Static_assert(SEAL_KEY_BYTES == crypto_kdf_KEYBYTES &&
		   SEAL_KEY_BYTES == crypto_aead_xchacha20poly1305_ietf_KEYBYTES,
    "one size for all keys");

static const char state_name[] = "seal.key", credential_name[] = "seal_key";

/* 64 hex digits and perhaps a line end. name is for the reason. Consumes fd. */
static int
read_hex(int fd, const char *name, bool strict, uint8_t master[SEAL_KEY_BYTES], char *reason)
{
	char text[HEX + 3];
	struct stat st;
	ssize_t len = -1;
	size_t binary = 0;
	const char *end;
	int rc = -EINVAL;

	if (fstat(fd, &st) != 0) {
		rc = -errno;
		snprintf(reason, REASON_MAX, "%s: %s", name, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		snprintf(reason, REASON_MAX, "%s is not a regular file", name);
	} else if (strict && (st.st_mode & 077) != 0) {
		rc = -EACCES;
		snprintf(reason, REASON_MAX, "%s is open to others: its mode is %04o, not 0600",
		    name, (unsigned)st.st_mode & 07777);
	} else {
		len = read(fd, text, sizeof(text));
		while (len > HEX && (text[len - 1] == '\n' || text[len - 1] == '\r'))
			len--;
		if (len == HEX &&
		    sodium_hex2bin(master, SEAL_KEY_BYTES, text, HEX, NULL, &binary, &end) == 0 &&
		    binary == SEAL_KEY_BYTES)
			rc = 0;
		else
			snprintf(reason, REASON_MAX, "%s is not %d hex digits", name, HEX);
		sodium_memzero(text, sizeof(text));
	}
	close(fd);
	return rc;
}

/* A new one: text, so that it is written, kept and handed over as the operator's own would be. */
static int
make_key(int state_fd, uint8_t master[SEAL_KEY_BYTES], char *reason)
{
	char text[HEX + 1];
	int rc;

	randombytes_buf(master, SEAL_KEY_BYTES);
	sodium_bin2hex(text, sizeof(text), master, SEAL_KEY_BYTES);
	text[HEX] = '\n'; /* in the place of the NUL */
	rc = state_file_write(state_fd, state_name, text, sizeof(text));
	sodium_memzero(text, sizeof(text));
	if (rc != 0)
		snprintf(reason, REASON_MAX, "%s: %s", state_name, strerror(-rc));
	return rc;
}

static int
find_key(int state_fd, const char *credentials, bool make, uint8_t *master, char *reason)
{
	/* neither waits for the writer of a pipe */
	const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	char path[4096];
	int fd, n;

	if (credentials != NULL) {
		n = snprintf(path, sizeof(path), "%s/%s", credentials, credential_name);
		fd = n < (int)sizeof(path) ? open(path, flags) : -1;
		if (fd >= 0) /* its mode is systemd's business */
			return read_hex(fd, credential_name, false, master, reason);
		if (n >= (int)sizeof(path) || errno != ENOENT) {
			snprintf(reason, REASON_MAX, "%s: %s", credential_name,
			    n >= (int)sizeof(path) ? "its path is too long" : strerror(errno));
			return -EINVAL;
		}
	}
	fd = openat(state_fd, state_name, flags | O_NOFOLLOW);
	if (fd >= 0)
		return read_hex(fd, state_name, true, master, reason);
	if (errno != ENOENT) {
		n = -errno;
		snprintf(reason, REASON_MAX, "%s: %s", state_name, strerror(-n));
		return n;
	}
	if (make)
		return make_key(state_fd, master, reason);
	snprintf(reason, REASON_MAX, "there is no %s in the state folder", state_name);
	return -ENOKEY;
}

int
seal_key_open(
    struct seal_key *key, int state_fd, const char *credentials, bool make, char reason[256])
{
	static const char context[crypto_kdf_CONTEXTBYTES + 1] = "stepdsea";
	uint8_t master[SEAL_KEY_BYTES], id[crypto_kdf_BYTES_MIN];
	int rc;

	*reason = '\0';
	rc = sodium_init() < 0 ? -ENOSYS : find_key(state_fd, credentials, make, master, reason);
	if (rc == 0) {
		crypto_kdf_derive_from_key(id, sizeof(id), 1, context, master);
		crypto_kdf_derive_from_key(
		    key->bytes_key, sizeof(key->bytes_key), 2, context, master);
		memcpy(key->id, id, sizeof(key->id));
	}
	sodium_memzero(master, sizeof(master));
	return rc;
}

void
seal_key_wipe(struct seal_key *key)
{
	sodium_memzero(key, sizeof(*key));
}

static void
put_prefix(const struct seal_key *key, uint8_t out[PREFIX])
{
	out[0] = VERSION;
	memcpy(out + 1, key->id, SEAL_ID_BYTES);
}

static int
check_prefix(const struct seal_key *key, const uint8_t in[PREFIX])
{
	if (in[0] != VERSION)
		return -EPROTO;
	return memcmp(in + 1, key->id, SEAL_ID_BYTES) == 0 ? 0 : -EKEYREJECTED;
}

void
seal_bytes(
    const struct seal_key *key, const char *about, const void *data, size_t len, uint8_t *out)
{
	uint8_t *nonce = out + PREFIX;

	put_prefix(key, out);
	randombytes_buf(nonce, NONCE);
	crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + NONCE, NULL, data, len,
	    (const unsigned char *)about, strlen(about), NULL, nonce, key->bytes_key);
}

int
seal_bytes_open(
    const struct seal_key *key, const char *about, const uint8_t *sealed, size_t len, void *out)
{
	const uint8_t *nonce = sealed + PREFIX;
	int rc;

	if (len < SEAL_OVERHEAD)
		return -EBADMSG;
	rc = check_prefix(key, sealed);
	if (rc == 0 && crypto_aead_xchacha20poly1305_ietf_decrypt(out, NULL, NULL, nonce + NONCE,
			   len - PREFIX - NONCE, (const unsigned char *)about, strlen(about), nonce,
			   key->bytes_key) != 0)
		rc = -EBADMSG;
	if (rc != 0)
		memset(out, 0, len - SEAL_OVERHEAD);
	return rc;
}

const char *
seal_reason(int error)
{
	switch (error) {
	case 0:
		return "sealed and whole";
	case -ENOKEY:
		return "there is no key to open it";
	case -EKEYREJECTED:
		return "it was sealed under another key";
	case -EPROTO:
		return "it was sealed by another version of stepd";
	case -EBADMSG:
		return "it is cut or was changed after it was sealed";
	default:
		return strerror(-error);
	}
}
