#include "supervisor/http/selfsign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

enum { DAY = 86400, VALID_DAYS = 825, RENEW_DAYS = 30 };

/* Is there a key, and a certificate that does not end soon? */
static bool
is_good(int folder_fd)
{
	time_t soon = time(NULL) + RENEW_DAYS * DAY;
	bool good = faccessat(folder_fd, SELFSIGN_KEY, R_OK, 0) == 0;
	int fd = openat(folder_fd, SELFSIGN_CERT, O_RDONLY | O_CLOEXEC);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	X509 *cert = f != NULL ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;

	good = good && cert != NULL && X509_cmp_time(X509_get0_notAfter(cert), &soon) > 0;
	X509_free(cert);
	if (f != NULL)
		fclose(f);
	else if (fd >= 0)
		close(fd);
	return good;
}

static bool
add_extension(X509 *cert, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *extension;
	bool good;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	good = extension != NULL && X509_add_ext(cert, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return good;
}

/* A host name goes into the certificate as it is: only what a host name may have. */
static void
alternative_names(char out[400])
{
	static const char letters[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1) != 0 || host[strspn(host, letters)] != '\0')
		host[0] = '\0';
	snprintf(out, 400, "DNS:localhost,IP:127.0.0.1,IP:::1%s%s", host[0] != '\0' ? ",DNS:" : "",
	    host);
}

static bool
fill(X509 *cert, EVP_PKEY *key)
{
	static const unsigned char name[] = "stepd on this machine";
	unsigned char serial[16];
	char names[400];
	BIGNUM *number;
	X509_NAME *subject = X509_get_subject_name(cert);
	bool good;

	if (RAND_bytes(serial, sizeof(serial)) != 1)
		return false;
	serial[0] &= 0x7f;
	number = BN_bin2bn(serial, sizeof(serial), NULL);
	good = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
	BN_free(number);
	alternative_names(names);
	return good && X509_set_version(cert, 2) == 1 &&
	       X509_gmtime_adj(X509_getm_notBefore(cert), -DAY) != NULL &&
	       X509_gmtime_adj(X509_getm_notAfter(cert), (long)VALID_DAYS * DAY) != NULL &&
	       X509_set_pubkey(cert, key) == 1 &&
	       X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, name, -1, -1, 0) == 1 &&
	       X509_set_issuer_name(cert, subject) == 1 &&
	       add_extension(cert, NID_subject_alt_name, names) &&
	       /* so that it can be trusted as its own authority, and as nobody else's */
	       add_extension(cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       add_extension(cert, NID_key_usage, "critical,digitalSignature,keyCertSign") &&
	       add_extension(cert, NID_ext_key_usage, "serverAuth") &&
	       add_extension(cert, NID_subject_key_identifier, "hash") &&
	       X509_sign(cert, key, EVP_sha256()) > 0;
}

/* Writes one PEM file under a temporary name, durably, then gives it its own. */
static int
write_file(int folder_fd, const char *name, mode_t mode, X509 *cert, EVP_PKEY *key)
{
	char temporary[64];
	FILE *f;
	int fd, rc = -EIO;
	bool good;

	snprintf(temporary, sizeof(temporary), "%s.partial", name);
	unlinkat(folder_fd, temporary, 0);
	fd = openat(folder_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	f = fdopen(fd, "w");
	if (f == NULL) {
		close(fd);
		return -ENOMEM;
	}
	good = key != NULL ? PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1
			   : PEM_write_X509(f, cert) == 1;
	if (good && fflush(f) == 0 && fsync(fd) == 0)
		rc = 0;
	if (fclose(f) != 0)
		rc = -EIO;
	if (rc == 0 && renameat(folder_fd, temporary, folder_fd, name) != 0)
		rc = -errno;
	if (rc != 0)
		unlinkat(folder_fd, temporary, 0);
	return rc;
}

int
selfsign_prepare(int folder_fd)
{
	EVP_PKEY *key;
	X509 *cert = NULL;
	int rc = -EIO;

	if (is_good(folder_fd))
		return 0;
	key = EVP_EC_gen("P-256");
	if (key != NULL)
		cert = X509_new();
	if (cert != NULL && fill(cert, key)) {
		rc = write_file(folder_fd, SELFSIGN_KEY, 0600, NULL, key);
		if (rc == 0)
			rc = write_file(folder_fd, SELFSIGN_CERT, 0644, cert, NULL);
	}
	X509_free(cert);
	EVP_PKEY_free(key);
	return rc;
}
