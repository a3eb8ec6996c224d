#include "supervisor/session/anchor_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/store/spool.h"

enum { READ_SIZE = 64 * 1024, ID_LENGTH = 32, FIND_TRIES = 10, FIND_PAUSE_NS = 100000000 };

void
anchor_file_name(char name[ANCHOR_NAME_SIZE], const char *id, uint64_t step, uint8_t kind)
{
	snprintf(
	    name, ANCHOR_NAME_SIZE, "%.*s.%llu.%u", ID_LENGTH, id, (unsigned long long)step, kind);
}

int
anchor_file_check(int fd, const char *sha256)
{
	uint8_t bytes[READ_SIZE], digest[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(digest) + 1];
	crypto_hash_sha256_state state;
	off_t at = 0;
	ssize_t n;

	if (fsync(fd) != 0)
		return -errno;
	/* From the disk, as far as the kernel lets go of what it holds. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	crypto_hash_sha256_init(&state);
	while ((n = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		crypto_hash_sha256_update(&state, bytes, (unsigned long long)n);
		at += n;
	}
	if (n < 0)
		return -errno;
	crypto_hash_sha256_final(&state, digest);
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	return strcmp(hex, sha256) == 0 ? 0 : -EBADMSG;
}

/* Under a name that is free. */
static int
copy_file(int fd, const char *sha256, int dir, const char *name)
{
	int64_t size = spool_size(fd);
	int to, error;

	if (size < 0)
		return (int)size;
	to = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	error = spool_copy(to, fd, (uint64_t)size);
	if (error == 0)
		error = anchor_file_check(to, sha256);
	close(to);
	return error;
}

int
anchor_file_link(int fd, const char *sha256, const char *folder, const char *name)
{
	int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = 0;
	char from[64], part[ANCHOR_NAME_SIZE + 8];

	if (dir < 0)
		return -errno;
	snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
	snprintf(part, sizeof(part), "%s.part", name);
	unlinkat(dir, part, 0);
	if (linkat(AT_FDCWD, from, dir, part, AT_SYMLINK_FOLLOW) != 0)
		error = spool_needs_copy(-errno) ? copy_file(fd, sha256, dir, part) : -errno;
	if (error == 0 && (renameat(dir, part, dir, name) != 0 || fsync(dir) != 0))
		error = -errno;
	unlinkat(dir, part, 0);
	close(dir);
	return error;
}

/* The path of a file in the folder. 0 or -ENAMETOOLONG. */
static int
join(char path[PATH_MAX], const char *folder, const char *name)
{
	int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);

	return n > 0 && n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* fd, or -errno. */
static int
open_file(const char *folder, const char *name)
{
	char path[PATH_MAX];
	int fd = join(path, folder, name);

	if (fd == 0)
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

bool
anchor_file_is_wrong(int error)
{
	return error == -ENOENT || error == -EBADMSG;
}

/* What fails for another reason (descriptors, memory, a disk that stumbles) may pass. */
int
anchor_file_find(int *fd, const char *folder, const char *name, const char *sha256)
{
	struct timespec pause = {0, FIND_PAUSE_NS};
	int error = -EIO;

	*fd = -1;
	for (int i = 0; i < FIND_TRIES && error != 0 && !anchor_file_is_wrong(error); i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		if (*fd < 0)
			*fd = open_file(folder, name);
		error = *fd < 0 ? *fd : anchor_file_check(*fd, sha256);
	}
	if (*fd < 0)
		*fd = -1;
	return error;
}

void
anchor_file_remove(const char *folder, const char *name)
{
	char path[PATH_MAX];

	if (join(path, folder, name) == 0 && unlink(path) != 0 && errno != ENOENT)
		log_warning("the spool file %s stays: %s", name, strerror(errno));
}

void
anchor_file_each(const char *folder,
    bool (*is_left_over)(void *ctx, const char *id, const char *name), void *ctx)
{
	char id[ID_LENGTH + 1];
	struct dirent *entry;
	DIR *dir = opendir(folder);

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (strspn(entry->d_name, "0123456789abcdef") != ID_LENGTH ||
		    entry->d_name[ID_LENGTH] != '.')
			continue;
		snprintf(id, sizeof(id), "%.*s", ID_LENGTH, entry->d_name);
		if (is_left_over(ctx, id, entry->d_name))
			anchor_file_remove(folder, entry->d_name);
	}
	if (dir != NULL)
		closedir(dir);
}
