/*
 * Preloaded into a program (LD_PRELOAD): makes the n-th call of a class fail, as a page that the
 * test shares says (fail_nth.h). Without FAIL_NTH nothing fails. Only calls that go through a
 * library's table count: what libc does within itself does not.
 */
#include "tests/fault/fail_wrap.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static struct fail_page nobody, *page = &nobody;
_Thread_local unsigned fail_inside;

__attribute__((constructor)) static void
start(void)
{
	const char *path = getenv("FAIL_NTH");
	int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
	void *at;

	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED)
		page = at;
}

static void trace(enum fail_class class)
{
	unsigned n = atomic_fetch_add(&page->traced, 1);

	if (n >= FAIL_TRACES)
		return;
	fail_where(&page->traces[n].from);
	page->traces[n].class = class;
}

static bool
is_from(uint64_t chain)
{
	struct fail_trace from;

	fail_where(&from);
	return from.chain == chain;
}

bool
fail_now(enum fail_class class, const char *name, int *error)
{
	unsigned n;

	if (fail_inside > 0)
		return false;
	if (page->tracing)
		trace(class);
	if (page->class != class || (page->chain != 0 && !is_from(page->chain)))
		return false;
	n = atomic_fetch_add(&page->calls, 1) + 1;
	if (n != page->nth && !(page->forever && n > page->nth))
		return false;
	*error = page->error;
	strncpy(page->name, name, sizeof(page->name) - 1);
	if (atomic_fetch_add(&page->fired, 1) == 0)
		fail_where(&page->met);
	return true;
}

bool
fail_plain(enum fail_class class, const char *name)
{
	int error;

	if (!fail_now(class, name, &error))
		return false;
	errno = error > 0 ? error : EIO;
	return true;
}

void *
fail_real(void **at, const char *name)
{
	if (*at == NULL)
		*at = dlsym(RTLD_NEXT, name);
	return *at;
}

/* --- memory ----------------------------------------------------------------------------------- */

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static void *
counted(void *p)
{
	if (p != NULL)
		atomic_fetch_add(&page->live, 1);
	return p;
}

void *
malloc(size_t size)
{
	return fail_plain(FAIL_MEMORY, "malloc") ? NULL : counted(__libc_malloc(size));
}

void *
calloc(size_t count, size_t size)
{
	return fail_plain(FAIL_MEMORY, "calloc") ? NULL : counted(__libc_calloc(count, size));
}

void *
realloc(void *p, size_t size)
{
	void *got;

	if (size > 0 && fail_plain(FAIL_MEMORY, "realloc"))
		return NULL;
	got = __libc_realloc(p, size);
	if (p == NULL)
		counted(got);
	else if (size == 0)
		atomic_fetch_sub(&page->live, 1);
	return got;
}

void *
reallocarray(void *p, size_t count, size_t size)
{
	if (__builtin_mul_overflow(count, size, &size)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, size);
}

void *
memalign(size_t alignment, size_t size)
{
	return fail_plain(FAIL_MEMORY, "memalign") ? NULL
						   : counted(__libc_memalign(alignment, size));
}

void *
aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int
posix_memalign(void **out, size_t alignment, size_t size)
{
	void *p = memalign(alignment, size);

	if (p == NULL)
		return ENOMEM;
	*out = p;
	return 0;
}

void
free(void *p)
{
	if (p != NULL)
		atomic_fetch_sub(&page->live, 1);
	__libc_free(p);
}

/* --- writing: an error, or half of it --------------------------------------------------------- */

/* eventfd and its like: writing wakes, and no disk is full. */
static bool
is_no_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0;
}

/* -1: failed. Else how much is to be written. */
static ssize_t
write_part(int fd, const char *name, size_t len)
{
	int error;

	if ((page->class != FAIL_WRITE && !page->tracing) || is_no_file(fd) ||
	    !fail_now(FAIL_WRITE, name, &error))
		return (ssize_t)len;
	if (error < 0 && len > 1)
		return (ssize_t)(len / 2);
	errno = error < 0 ? EIO : error;
	return -1;
}

#define WRAP_WRITE(name, parameters, to, ...)                                                      \
	ssize_t name parameters;                                                                   \
	static void *real_##name;                                                                  \
	ssize_t name parameters                                                                    \
	{                                                                                          \
		ssize_t part = write_part(to, #name, len);                                         \
                                                                                                   \
		return part < 0 ? -1 : REAL(name)(to, __VA_ARGS__);                                \
	}
WRAP_WRITE(write, (int fd, const void *data, size_t len), fd, data, (size_t)part)
WRAP_WRITE(pwrite, (int fd, const void *data, size_t len, off_t at), fd, data, (size_t)part, at)
WRAP_WRITE(pwrite64, (int fd, const void *data, size_t len, off_t at), fd, data, (size_t)part, at)
WRAP_WRITE(sendfile, (int to, int from, off_t *at, size_t len), to, from, at, (size_t)part)
WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), FAIL_WRITE, -1)
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at), FAIL_WRITE,
    -1)

WRAP(size_t, fwrite, (const void *data, size_t size, size_t n, FILE *f), (data, size, n, f),
    FAIL_WRITE, 0)
WRAP(int, fflush, (FILE * f), (f), FAIL_WRITE, EOF)
WRAP(int, puts, (const char *text), (text), FAIL_WRITE, EOF)

/* Closed it is in any case. */
int
fclose(FILE *f)
{
	static void *real_fclose;
	bool failing = fail_plain(FAIL_WRITE, "fclose");
	int got = REAL(fclose)(f);

	if (failing)
		errno = ENOSPC;
	return failing ? EOF : got;
}

/* --- reading, syncing, names, maps, sending, sizes -------------------------------------------- */

WRAP(ssize_t, read, (int fd, void *to, size_t len), (fd, to, len), FAIL_READ, -1)
WRAP(ssize_t, pread, (int fd, void *to, size_t len, off_t at), (fd, to, len, at), FAIL_READ, -1)
WRAP(ssize_t, pread64, (int fd, void *to, size_t len, off_t at), (fd, to, len, at), FAIL_READ, -1)
WRAP(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n), FAIL_READ, -1)
WRAP(ssize_t, recv, (int fd, void *to, size_t len, int flags), (fd, to, len, flags), FAIL_READ, -1)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags), FAIL_READ, -1)
WRAP(int, fsync, (int fd), (fd), FAIL_SYNC, -1)
WRAP(int, fdatasync, (int fd), (fd), FAIL_SYNC, -1)
WRAP(int, msync, (void *at, size_t len, int flags), (at, len, flags), FAIL_SYNC, -1)
WRAP(int, rename, (const char *a, const char *b), (a, b), FAIL_NAME, -1)
WRAP(int, renameat, (int f, const char *a, int t, const char *b), (f, a, t, b), FAIL_NAME, -1)
WRAP(int, link, (const char *a, const char *b), (a, b), FAIL_NAME, -1)
WRAP(int, linkat, (int f, const char *a, int t, const char *b, int flags), (f, a, t, b, flags),
    FAIL_NAME, -1)
WRAP(int, unlink, (const char *a), (a), FAIL_NAME, -1)
WRAP(int, unlinkat, (int f, const char *a, int flags), (f, a, flags), FAIL_NAME, -1)
WRAP(int, mkdir, (const char *a, mode_t mode), (a, mode), FAIL_NAME, -1)
WRAP(int, mkdirat, (int f, const char *a, mode_t mode), (f, a, mode), FAIL_NAME, -1)
WRAP(void *, mmap, (void *at, size_t len, int prot, int flags, int fd, off_t from),
    (at, len, prot, flags, fd, from), FAIL_MAP, MAP_FAILED)
WRAP(void *, mmap64, (void *at, size_t len, int prot, int flags, int fd, off_t from),
    (at, len, prot, flags, fd, from), FAIL_MAP, MAP_FAILED)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags), FAIL_SEND, -1)
WRAP(ssize_t, send, (int fd, const void *data, size_t len, int flags), (fd, data, len, flags),
    FAIL_SEND, -1)
WRAP(int, ftruncate, (int fd, off_t len), (fd, len), FAIL_SIZE, -1)
WRAP(int, ftruncate64, (int fd, off_t len), (fd, len), FAIL_SIZE, -1)
WRAP(int, truncate, (const char *path, off_t len), (path, len), FAIL_SIZE, -1)
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t len), (fd, mode, at, len), FAIL_SIZE, -1)

/* --- descriptors ------------------------------------------------------------------------------ */

#define WRAP_OPEN(name, parameters, ...)                                                           \
	int name parameters;                                                                       \
	static void *real_##name;                                                                  \
	int name parameters                                                                        \
	{                                                                                          \
		mode_t mode = 0;                                                                   \
                                                                                                   \
		if ((flags & (O_CREAT | O_TMPFILE)) != 0) {                                        \
			va_list rest;                                                              \
                                                                                                   \
			va_start(rest, flags);                                                     \
			mode = va_arg(rest, mode_t);                                               \
			va_end(rest);                                                              \
		}                                                                                  \
		return fail_plain(FAIL_OPEN, #name) ? -1 : REAL(name)(__VA_ARGS__, mode);          \
	}
WRAP_OPEN(open, (const char *path, int flags, ...), path, flags)
WRAP_OPEN(open64, (const char *path, int flags, ...), path, flags)
WRAP_OPEN(openat, (int at, const char *path, int flags, ...), at, path, flags)
WRAP_OPEN(openat64, (int at, const char *path, int flags, ...), at, path, flags)
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), FAIL_OPEN, NULL)
WRAP(FILE *, fopen64, (const char *path, const char *mode), (path, mode), FAIL_OPEN, NULL)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), FAIL_OPEN, -1)
WRAP(int, pipe2, (int fds[2], int flags), (fds, flags), FAIL_OPEN, -1)
WRAP(int, eventfd, (unsigned start, int flags), (start, flags), FAIL_OPEN, -1)
WRAP(int, epoll_create1, (int flags), (flags), FAIL_OPEN, -1)
WRAP(int, socket, (int d, int t, int p), (d, t, p), FAIL_OPEN, -1)
WRAP(int, socketpair, (int d, int t, int p, int fds[2]), (d, t, p, fds), FAIL_OPEN, -1)
WRAP(int, accept4, (int fd, struct sockaddr *a, socklen_t *len, int flags), (fd, a, len, flags),
    FAIL_OPEN, -1)
WRAP(int, dup, (int fd), (fd), FAIL_OPEN, -1)
WRAP(int, mkostemp, (char *path, int flags), (path, flags), FAIL_OPEN, -1)
int fcntl(int fd, int command, ...);
static void *real_fcntl;

int
fcntl(int fd, int command, ...)
{
	va_list rest;
	void *argument;

	va_start(rest, command);
	argument = va_arg(rest, void *);
	va_end(rest);
	if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && fail_plain(FAIL_OPEN, "F_DUPFD"))
		return -1;
	if (command == F_ADD_SEALS && fail_plain(FAIL_OPEN, "F_ADD_SEALS"))
		return -1;
	return REAL(fcntl)(fd, command, argument);
}

/* --- processes and threads -------------------------------------------------------------------- */

WRAP(pid_t, fork, (void), (), FAIL_PROCESS, -1)
WRAP(int, pthread_create,
    (pthread_t * thread, const pthread_attr_t *a, void *(*f)(void *), void *arg),
    (thread, a, f, arg), FAIL_PROCESS, errno)
