/* Sealing: what was sealed opens, under its key and about its thing alone; nothing else does. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/store/seal.h"
#include "tests/unit/test.h"

static const char hex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
static const char about[] = "restore-url 0123", text[] = "https://store.example/a?signature=b";

static char folder[] = "/tmp/stepd-seal-XXXXXX";
static int folder_fd = -1;

static void
put(const char *name, const char *content, mode_t mode)
{
	int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content));
	fchmod(fd, mode);
	close(fd);
}

/* The key whose digits are 00 01 02 …, or with another first byte. */
static struct seal_key
known(int first)
{
	char digits[sizeof(hex)], reason[256];
	struct seal_key key = {.id = {0}};

	snprintf(digits, sizeof(digits), "%02x%s", first, hex + 2);
	put("seal_key", digits, 0600);
	CHECK(seal_key_open(&key, folder_fd, folder, false, reason) == 0);
	unlinkat(folder_fd, "seal_key", 0);
	return key;
}

TEST(a_key_is_made_once)
{
	struct seal_key a, b;
	char reason[256];
	struct stat st;

	CHECK(seal_key_open(&a, folder_fd, NULL, false, reason) == -ENOKEY);
	CHECK_STR(reason, "there is no seal.key in the state folder");
	CHECK(fstatat(folder_fd, "seal.key", &st, 0) != 0);
	CHECK(seal_key_open(&a, folder_fd, folder, true, reason) == 0);
	CHECK(fstatat(folder_fd, "seal.key", &st, 0) == 0);
	CHECK((st.st_mode & 07777) == 0600 && st.st_size == 65);
	CHECK(seal_key_open(&b, folder_fd, NULL, true, reason) == 0);
	CHECK(memcmp(&a, &b, sizeof(a)) == 0);
	/* one given by systemd goes before it */
	put("seal_key", hex, 0644);
	CHECK(seal_key_open(&b, folder_fd, folder, true, reason) == 0);
	CHECK(memcmp(&a, &b, sizeof(a)) != 0);
	unlinkat(folder_fd, "seal_key", 0);
	unlinkat(folder_fd, "seal.key", 0);
	seal_key_wipe(&a);
	for (size_t i = 0; i < sizeof(a); i++)
		CHECK(((const char *)&a)[i] == 0);
}

TEST(a_bad_key_is_named)
{
	static const struct {
		const char *content, *reason;
		mode_t mode;
		int rc;
	} bad[] = {
	    {hex, "seal.key is open to others: its mode is 0640, not 0600", 0640, -EACCES},
	    {"", "seal.key is not 64 hex digits", 0600, -EINVAL},
	    {"0011", "seal.key is not 64 hex digits", 0600, -EINVAL},
	    {"00010203040506070809 a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
		"seal.key is not 64 hex digits", 0600, -EINVAL},
	    {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2",
		"seal.key is not 64 hex digits", 0600, -EINVAL},
	};
	struct seal_key key;
	char reason[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		put("seal.key", bad[i].content, bad[i].mode);
		CHECK(seal_key_open(&key, folder_fd, NULL, true, reason) == bad[i].rc);
		CHECK_STR(reason, bad[i].reason);
		unlinkat(folder_fd, "seal.key", 0);
	}
	CHECK(symlinkat("elsewhere", folder_fd, "seal.key") == 0);
	CHECK(seal_key_open(&key, folder_fd, NULL, true, reason) == -ELOOP);
	unlinkat(folder_fd, "seal.key", 0);
	CHECK(mkfifoat(folder_fd, "seal.key", 0600) == 0);
	CHECK(seal_key_open(&key, folder_fd, NULL, true, reason) == -EINVAL);
	CHECK_STR(reason, "seal.key is not a regular file");
	unlinkat(folder_fd, "seal.key", 0);
}

TEST(bytes_open_as_they_were)
{
	struct seal_key key = known(0), other = known(1);
	uint8_t sealed[sizeof(text) + SEAL_OVERHEAD], again[sizeof(sealed)];
	char back[sizeof(text)];

	seal_bytes(&key, about, text, sizeof(text), sealed);
	seal_bytes(&key, about, text, sizeof(text), again);
	CHECK(memcmp(sealed, again, sizeof(sealed)) != 0); /* a fresh nonce each time */
	CHECK(memmem(sealed, sizeof(sealed), "signature", 9) == NULL);
	CHECK(seal_bytes_open(&key, about, sealed, sizeof(sealed), back) == 0);
	CHECK_STR(back, text);
	CHECK(seal_bytes_open(&other, about, sealed, sizeof(sealed), back) == -EKEYREJECTED);
	CHECK(back[0] == 0);
	CHECK(seal_bytes_open(&key, "restore-url 4567", sealed, sizeof(sealed), back) == -EBADMSG);
	CHECK(seal_bytes_open(&key, "", sealed, sizeof(sealed), back) == -EBADMSG);
	seal_bytes(&key, about, NULL, 0, sealed);
	CHECK(seal_bytes_open(&key, about, sealed, SEAL_OVERHEAD, back) == 0);
}

TEST(every_changed_bit_and_every_cut_is_refused)
{
	struct seal_key key = known(0);
	uint8_t sealed[sizeof(text) + SEAL_OVERHEAD];
	char back[sizeof(sealed)];

	seal_bytes(&key, about, text, sizeof(text), sealed);
	for (size_t i = 0; i < 8 * sizeof(sealed); i++) {
		int rc, want = i < 8 ? -EPROTO : i < 8 * 9 ? -EKEYREJECTED : -EBADMSG;

		sealed[i / 8] ^= 1u << i % 8;
		memset(back, 'x', sizeof(back));
		rc = seal_bytes_open(&key, about, sealed, sizeof(sealed), back);
		CHECK_MSG(rc == want, "bit %zu: %d", i, rc);
		CHECK(back[0] == 0 && back[sizeof(text) - 1] == 0);
		sealed[i / 8] ^= 1u << i % 8;
	}
	for (size_t len = 0; len < sizeof(sealed); len++)
		CHECK(seal_bytes_open(&key, about, sealed, len, back) == -EBADMSG);
}

/* Written by this format's first version: what is on disks stays readable. */
TEST(what_version_1_sealed_opens)
{
	static const char kept[] =
	    "01fea76b97c945efffa2edb6d43665a8372e180fa5c4afbc9c18959f0cf7eef97fd146ea"
	    "f316743f4a812bb06ff7af626b4b43a33fffe9de453442c3b677837209e842b5106bdf9d"
	    "1187caeef2e23ca40f5374d386";
	struct seal_key key = known(0);
	uint8_t sealed[sizeof(text) + SEAL_OVERHEAD];
	char back[sizeof(text)] = "";
	size_t len = 0;

	CHECK(sodium_hex2bin(sealed, sizeof(sealed), kept, strlen(kept), NULL, &len, NULL) == 0);
	CHECK(len == sizeof(sealed));
	CHECK(seal_bytes_open(&key, about, sealed, len, back) == 0);
	CHECK_STR(back, text);
}

TEST(reasons)
{
	CHECK_STR(seal_reason(-EKEYREJECTED), "it was sealed under another key");
	CHECK_STR(seal_reason(-EBADMSG), "it is cut or was changed after it was sealed");
	CHECK_STR(seal_reason(-ENOSPC), "No space left on device");
}

static int
cases(int argc, char **argv)
{
	static const struct test_case all[] = {TEST_CASE(a_key_is_made_once),
	    TEST_CASE(a_bad_key_is_named), TEST_CASE(bytes_open_as_they_were),
	    TEST_CASE(every_changed_bit_and_every_cut_is_refused),
	    TEST_CASE(what_version_1_sealed_opens), TEST_CASE(reasons), {NULL, NULL}};

	return test_main(all, argc, argv);
}

int
main(int argc, char **argv)
{
	int rc = 1;

	if (mkdtemp(folder) != NULL && (folder_fd = open(folder, O_RDONLY | O_DIRECTORY)) >= 0)
		rc = cases(argc, argv);
	close(folder_fd);
	rmdir(folder);
	return rc;
}
