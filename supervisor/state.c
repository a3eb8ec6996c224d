#include "supervisor/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/file.h"

static int
make_parents(const char *path)
{
	char *copy = strdup(path);
	int rc = copy != NULL ? 0 : -ENOMEM;

	for (char *p = copy + 1; rc == 0 && (p = strchr(p, '/')) != NULL; *p++ = '/') {
		*p = '\0';
		if (mkdir(copy, 0755) != 0 && errno != EEXIST)
			rc = -errno;
	}
	free(copy);
	return rc;
}

int
state_open(const char *path)
{
	struct stat st;
	int fd, rc = make_parents(path);

	if (rc == 0 && mkdir(path, 0700) != 0 && errno != EEXIST)
		rc = -errno;
	if (rc != 0)
		return rc;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0)
		rc = -errno;
	else if (st.st_uid != geteuid())
		rc = -EPERM;
	else if ((st.st_mode & 077) != 0 && fchmod(fd, 0700) != 0)
		rc = -errno;
	else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (rc != 0) {
		close(fd);
		return rc;
	}
	return fd;
}

int
state_file_write(int state_fd, const char *name, const void *data, size_t len)
{
	char temporary[128];
	int fd, rc;

	snprintf(temporary, sizeof(temporary), "%s.partial", name);
	fd = openat(state_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = file_write(fd, data, len);
	if (rc == 0 && fsync(fd) != 0)
		rc = -errno;
	close(fd);
	if (rc == 0 && renameat(state_fd, temporary, state_fd, name) != 0)
		rc = -errno;
	if (rc == 0 && fsync(state_fd) != 0)
		rc = -errno;
	if (rc != 0)
		unlinkat(state_fd, temporary, 0);
	return rc;
}

int
state_folder(int state_fd, const char *name)
{
	int fd;

	if (mkdirat(state_fd, name, 0700) != 0 && errno != EEXIST)
		return -errno;
	fd = openat(state_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 ? fd : -errno;
}
