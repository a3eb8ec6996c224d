#include "supervisor/store/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int
spool_prepare(const char *folder)
{
	return mkdir(folder, 0700) != 0 && errno != EEXIST ? -errno : 0;
}

int
spool_new(const char *folder)
{
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char path[4096];
	int n;

	/* Not every file system has nameless files. */
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd >= 0 ? fd : -errno;
	n = snprintf(path, sizeof(path), "%s/.XXXXXX", folder);
	if (n < 0 || n >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

int
spool_read_only(int fd)
{
	char path[64];
	int copy;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	copy = open(path, O_RDONLY | O_CLOEXEC);
	return copy < 0 ? -errno : copy;
}

bool
spool_needs_copy(int error)
{
	return error == -ENOENT || error == -EXDEV || error == -EPERM || error == -EOPNOTSUPP;
}

int
spool_copy(int to, int from, uint64_t size)
{
	off_t at = 0;

	while ((uint64_t)at < size) {
		ssize_t n = sendfile(to, from, &at, 1024 * 1024);

		if (n == 0)
			return -EIO;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	return fsync(to) == 0 ? 0 : -errno;
}

int64_t
spool_size(int fd)
{
	struct stat st;

	return fstat(fd, &st) != 0 ? -errno : (int64_t)st.st_size;
}
