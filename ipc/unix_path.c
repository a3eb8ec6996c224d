#include "ipc/unix_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int
open_folder(const char *path, const char *name)
{
	char folder[PATH_MAX];
	size_t len = (size_t)(name - path);
	int fd;

	if (len >= sizeof(folder))
		return -ENAMETOOLONG;
	memcpy(folder, path, len);
	folder[len] = '\0';
	fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

int
unix_path_init(struct unix_path *u, const char *path)
{
	size_t size = sizeof(u->address.sun_path);
	const char *slash = strrchr(path, '/');
	int n;

	*u = (struct unix_path){.address.sun_family = AF_UNIX, .folder = -1};
	if (strlen(path) < size) {
		n = snprintf(u->address.sun_path, size, "%s", path);
	} else {
		if (slash == NULL)
			return -ENAMETOOLONG;
		u->folder = open_folder(path, slash + 1);
		if (u->folder < 0)
			return u->folder;
		n = snprintf(
		    u->address.sun_path, size, "/proc/self/fd/%d/%s", u->folder, slash + 1);
	}
	if (n < 0 || n >= (int)size) {
		unix_path_fini(u);
		return -ENAMETOOLONG;
	}
	u->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1);
	return 0;
}

void
unix_path_fini(struct unix_path *u)
{
	if (u->folder >= 0)
		close(u->folder);
	u->folder = -1;
}
