#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/store/object_store.h"
#include "supervisor/offload.h"
#include "supervisor/stepd.h"
#include "supervisor/store/spool.h"

/* One object on its way to its name. */
struct put {
	struct stepd *s;
	int dir_fd, fd;
	struct object_ref ref;
	uint64_t size;
	bool reserved;
	int error; /* found before the thread started */
	void (*done)(void *arg, int error);
	void *arg;
};

/* Gives the file its name, unless that is taken. */
static int
link_file(const struct put *p, int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, p->dir_fd, p->ref.id, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

/* Where the file cannot be given a name (it had one once, or lies elsewhere): a copy is. */
static int
copy_file(const struct put *p)
{
	char name[64];
	int fd, rc;

	snprintf(name, sizeof(name), "%s-%d.partial", p->ref.id, p->fd);
	fd = openat(p->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = spool_copy(fd, p->fd, p->size);
	if (rc == 0)
		rc = linkat(p->dir_fd, name, p->dir_fd, p->ref.id, 0) == 0 ? 0 : -errno;
	unlinkat(p->dir_fd, name, 0);
	close(fd);
	return rc;
}

/* In a thread: the bytes, then the name, then the folder. */
static int
work(void *arg)
{
	const struct put *p = arg;
	int rc;

	if (p->error != 0)
		return p->error;
	if (fsync(p->fd) != 0)
		return -errno;
	rc = link_file(p, p->fd);
	if (spool_needs_copy(rc))
		rc = copy_file(p);
	if (rc == 0 && fsync(p->dir_fd) != 0) {
		rc = -errno;
		unlinkat(p->dir_fd, p->ref.id, 0);
	}
	return rc;
}

static void
finish(void *arg, int result)
{
	struct put *p = arg;

	if (p->reserved)
		objects_release(p->s, p->size);
	if (result == 0)
		p->s->objects->used += p->size;
	close(p->fd);
	p->done(p->arg, result == -EDQUOT ? -ENOSPC : result);
	free(p);
}

void
objects_put(struct stepd *s, const struct object_ref *ref, int fd,
    void (*done)(void *arg, int error), void *arg)
{
	struct put *p = calloc(1, sizeof(*p));
	struct stat st;

	if (p == NULL) {
		close(fd);
		done(arg, -ENOMEM);
		return;
	}
	*p = (struct put){.s = s, .dir_fd = s->objects->dir_fd, .fd = fd, .ref = *ref};
	p->done = done;
	p->arg = arg;
	if (fstat(fd, &st) != 0)
		p->error = -errno;
	else if (!S_ISREG(st.st_mode) || ref->verb != OBJECT_PUT)
		p->error = -EINVAL;
	else if ((uint64_t)st.st_size > ref->limit)
		p->error = -EFBIG;
	else if (objects_have(s->objects, ref->id))
		p->error = -EEXIST;
	if (p->error == 0) {
		p->size = (uint64_t)st.st_size;
		p->error = objects_reserve(s, p->size, false);
		p->reserved = p->error == 0;
	}
	offload_start(s->base, work, finish, p);
}
