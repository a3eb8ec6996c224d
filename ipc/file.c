#include "ipc/file.h"

#include <errno.h>
#include <unistd.h>

int
file_read_at(int fd, void *out, size_t len, uint64_t at)
{
	char *p = out;

	while (len > 0) {
		ssize_t n = pread(fd, p, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int
file_write_at(int fd, const void *data, size_t len, uint64_t at)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = pwrite(fd, p, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int
file_write(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}
