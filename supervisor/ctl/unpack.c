#include "supervisor/ctl/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/gzip_read.h"
#include "ipc/refusal.h"
#include "ipc/tar_read.h"

#define ADAPTER "adapter/"

static int
failed(const char *path, const char *what)
{
	fprintf(stderr, "stepctl: %s: %s\n", path, what);
	return -1;
}

/* Writes a file whole or not at all: a temporary name, synced, renamed. */
static int
write_whole(const char *path, const void *data, size_t len)
{
	char part[PATH_MAX];
	const char *at = data;
	ssize_t n = 0;
	int fd;

	if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
		return failed(path, strerror(ENAMETOOLONG));
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return failed(part, strerror(errno));
	while (len > 0 && (n = write(fd, at, len)) > 0) {
		at += n;
		len -= (size_t)n;
	}
	if (len > 0 || fsync(fd) != 0 || close(fd) != 0 || rename(part, path) != 0) {
		failed(path, strerror(errno));
		unlink(part);
		return -1;
	}
	return 0;
}

/* One file of the archive; the reader has refused names that lead out of the folder. */
static int
unpack_member(struct tar_reader *t, const struct tar_member *m, const char *folder)
{
	const char *name = m->name + strlen(ADAPTER);
	struct refusal r;
	char path[PATH_MAX];
	void *data;
	int rc;

	if (strchr(name, '/') != NULL)
		return failed(m->name, "a folder inside adapter/");
	if (snprintf(path, sizeof(path), "%s/" ADAPTER "%s", folder, name) >= (int)sizeof(path))
		return failed(m->name, strerror(ENAMETOOLONG));
	data = malloc(m->size + 1);
	if (data == NULL)
		return failed(m->name, strerror(ENOMEM));
	if (tar_read(t, data, &r) != 0)
		rc = failed(m->name, r.text);
	else
		rc = write_whole(path, data, m->size);
	free(data);
	return rc;
}

static int
unpack_members(struct tar_reader *t, const char *archive, const char *folder)
{
	struct tar_member m;
	struct refusal r;
	int rc;

	while ((rc = tar_next(t, &m, &r)) == 1) {
		if (m.folder || strncmp(m.name, ADAPTER, strlen(ADAPTER)) != 0)
			continue;
		if (unpack_member(t, &m, folder) != 0)
			return -1;
	}
	return rc == 0 ? 0 : failed(archive, r.text);
}

static int
unpack(const char *archive, const char *folder, const void *data, size_t len)
{
	struct gzip_reader *g = gzip_reader_new(data, len, (uint64_t)8 << 30);
	struct tar_reader *t = g == NULL ? NULL : tar_reader_new(g);
	int rc;

	rc = t == NULL ? failed(archive, strerror(ENOMEM)) : unpack_members(t, archive, folder);
	tar_reader_free(t);
	gzip_reader_free(g);
	return rc;
}

int
unpack_adapter(const char *archive, const char *folder)
{
	char path[PATH_MAX];
	struct stat st;
	void *data;
	int fd, rc;

	if (snprintf(path, sizeof(path), "%s/" ADAPTER, folder) >= (int)sizeof(path))
		return failed(folder, strerror(ENAMETOOLONG));
	if (mkdir(path, 0777) != 0 && errno != EEXIST)
		return failed(path, strerror(errno));
	fd = open(archive, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0) {
		failed(archive, fd < 0 ? strerror(errno) : "empty");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return failed(archive, strerror(errno));
	rc = unpack(archive, folder, data, (size_t)st.st_size);
	munmap(data, (size_t)st.st_size);
	return rc;
}
