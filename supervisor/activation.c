#include "supervisor/activation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST_FD = 3 };

/* Digits only. */
static bool
read_number(const char *text, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

/* NULL, or why it is no socket to take connections from. */
static const char *
judge(int fd)
{
	int domain = 0, type = 0, listens = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0)
		return errno == ENOTSOCK ? "is no socket" : strerror(errno);
	if (domain != AF_INET && domain != AF_INET6)
		return "is no TCP socket";
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_STREAM)
		return "is no TCP socket";
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || !listens)
		return "does not listen (a socket unit needs Accept=no)";
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
		return strerror(errno);
	return NULL;
}

static int
take(const char *count_text, int *fds, size_t max, char *reason)
{
	long count;

	if (!read_number(count_text, &count) || count < 1 || (size_t)count > max) {
		snprintf(
		    reason, 256, "LISTEN_FDS is \"%.32s\": not from 1 to %zu", count_text, max);
		return -EINVAL;
	}
	for (int i = 0; i < count; i++) {
		const char *wrong = judge(FIRST_FD + i);

		if (wrong != NULL) {
			snprintf(reason, 256, "LISTEN_FDS: descriptor %d %s", FIRST_FD + i, wrong);
			return -EINVAL;
		}
		fds[i] = FIRST_FD + i;
	}
	return (int)count;
}

int
activation_take(int *fds, size_t max, char reason[256])
{
	const char *pid_text = getenv("LISTEN_PID"), *count_text = getenv("LISTEN_FDS");
	long pid;
	int rc = 0;

	/* one of another process is what this one was started with by chance */
	if (pid_text != NULL && count_text != NULL && read_number(pid_text, &pid) &&
	    pid == (long)getpid())
		rc = take(count_text, fds, max, reason);
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return rc;
}
