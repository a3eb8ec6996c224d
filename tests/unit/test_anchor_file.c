/* The files of snapshots: a name that is on the disk, whatever the open file is. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/session/anchor_file.h"
#include "supervisor/store/spool.h"
#include "tests/unit/test.h"

enum { SIZE = 300000 };

static char folder[64], path[128], bytes[SIZE], sha256[65];

static void
make_folder(void)
{
	unsigned char digest[crypto_hash_sha256_BYTES];

	snprintf(folder, sizeof(folder), "/tmp/test_anchor_file.XXXXXX");
	if (mkdtemp(folder) == NULL)
		abort();
	snprintf(path, sizeof(path), "%s/name", folder);
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (char)(i * 7 + i / 251);
	crypto_hash_sha256(digest, (const unsigned char *)bytes, SIZE);
	sodium_bin2hex(sha256, sizeof(sha256), digest, sizeof(digest));
}

/* Of this file system without a name; of this one, once named; of another one. */
static int
open_file(int how)
{
	char other[] = "/dev/shm/test_anchor_file.XXXXXX", here[128];
	int fd = -1;

	snprintf(here, sizeof(here), "%s/XXXXXX", folder);
	if (how == 0)
		fd = spool_new(folder);
	else
		fd = mkstemp(how == 1 ? here : other);
	if (how > 0)
		unlink(how == 1 ? here : other);
	CHECK(fd >= 0 && write(fd, bytes, SIZE) == SIZE);
	return fd;
}

static void
check_named(void)
{
	static char got[SIZE + 1];
	int fd = open(path, O_RDONLY);
	struct stat st;

	CHECK(fd >= 0 && read(fd, got, sizeof(got)) == SIZE && memcmp(got, bytes, SIZE) == 0);
	CHECK(fstat(fd, &st) == 0 && st.st_nlink == 1);
	close(fd);
}

TEST(any_file_gets_its_name)
{
	make_folder();
	for (int how = 0; how < 3; how++) {
		int fd = open_file(how);

		CHECK_MSG(anchor_file_link(fd, sha256, folder, "name") == 0, "%d", how);
		check_named();
		/* in the place of the one before it */
		CHECK_MSG(anchor_file_link(fd, sha256, folder, "name") == 0, "%d", how);
		check_named();
		close(fd);
		CHECK(unlink(path) == 0);
	}
	CHECK(rmdir(folder) == 0); /* and nothing else is there */
}

TEST(a_copy_is_what_it_has_to_be)
{
	int fd;

	make_folder();
	fd = open_file(1);
	CHECK(pwrite(fd, "x", 1, SIZE / 2) == 1);
	CHECK(anchor_file_link(fd, sha256, folder, "name") == -EBADMSG);
	close(fd);
	CHECK(rmdir(folder) == 0);
}

TEST_MAIN(TEST_CASE(any_file_gets_its_name), TEST_CASE(a_copy_is_what_it_has_to_be))
