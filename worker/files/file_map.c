#include "worker/files/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL = 64 * 1024 * 1024 };

const char *
file_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

static int
map_fd(struct file_map *m, int fd, const char *name, struct refusal *r)
{
	struct stat st;
	void *data;

	if (fstat(fd, &st) != 0)
		return refuse(r, 422, "%s cannot be read: %s", name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return refuse(r, 422, "%s is no regular file", name);
	if (st.st_size == 0) {
		m->data = "";
		return 0;
	}
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return refuse(r, 422, "%s cannot be mapped: %s", name, strerror(errno));
	m->data = data;
	m->len = (size_t)st.st_size;
	return 0;
}

int
file_map_open(struct file_map *m, const char *dir, const char *name, struct refusal *r)
{
	const char *base = file_base_name(name);
	char path[PATH_MAX];
	int fd, result;

	*m = (struct file_map){NULL, 0};
	if (snprintf(path, sizeof(path), "%s%s%s", dir, dir[0] != '\0' ? "/" : "", name) >=
	    (int)sizeof(path))
		return refuse(r, 422, "the path of %s is too long", base);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 1;
	if (fd < 0)
		return refuse(r, 422, "%s cannot be opened: %s", base, strerror(errno));
	result = map_fd(m, fd, base, r);
	close(fd);
	return result;
}

int
file_map_small(struct file_map *m, const char *dir, const char *name, struct refusal *r)
{
	int result = file_map_open(m, dir, name, r);

	if (result == 0 && m->len > SMALL) {
		file_map_close(m);
		return refuse(r, 422, "%s is larger than %d MiB", name, SMALL >> 20);
	}
	return result;
}

void
file_map_close(struct file_map *m)
{
	if (m->len != 0)
		munmap((void *)(uintptr_t)m->data, m->len);
	*m = (struct file_map){NULL, 0};
}
