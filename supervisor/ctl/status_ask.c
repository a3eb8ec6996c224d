#include "supervisor/ctl/status_ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/monotonic.h"
#include "ipc/unix_path.h"
#include "supervisor/ctl/client.h"
#include "supervisor/ctl/print.h"
#include "supervisor/ctl/verbs.h"

enum { DOCUMENT_MAX = 16 << 20, WAIT_SECONDS = 10 };

static const char unit_socket[] = "/run/stepd/status.sock";

static char *
join(const char *folder, const char *rest)
{
	char *path = NULL;

	return asprintf(&path, "%s/%s", folder, rest) < 0 ? NULL : path;
}

char *
status_socket_path(const char *named)
{
	const char *own = getenv("STEPD_STATUS_SOCKET"), *state = getenv("STEPD_STATE_DIR");
	const char *top = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (named != NULL)
		return strdup(named);
	if (own != NULL && strcmp(own, "off") == 0) {
		fputs(
		    "stepctl: STEPD_STATUS_SOCKET is off: name the socket with --socket\n", stderr);
		return NULL;
	}
	if (own != NULL && *own != '\0')
		return strdup(own);
	if (state != NULL && *state != '\0')
		return join(state, "status.sock");
	if (access(unit_socket, F_OK) == 0)
		return strdup(unit_socket);
	if (top != NULL && *top == '/')
		return join(top, "stepd/status.sock");
	if (home != NULL && *home == '/')
		return join(home, ".local/state/stepd/status.sock");
	return strdup(unit_socket);
}

static int
unreachable(const char *path, const char *why)
{
	fprintf(stderr, "stepctl: no stepd answers at %s: %s\n", path, why);
	return CTL_UNREACHABLE;
}

/* A line of others before us is waited in. 0 or -errno. */
static int
connect_in_time(int fd, const struct unix_path *u)
{
	double deadline = monotonic_seconds() + WAIT_SECONDS;

	while (connect(fd, (const struct sockaddr *)&u->address, u->len) != 0) {
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN || monotonic_seconds() > deadline)
			return -errno;
		poll(NULL, 0, 20);
	}
	return 0;
}

/* fd or -errno. */
static int
connect_to(const char *path)
{
	struct unix_path u;
	int fd, error = unix_path_init(&u, path);

	if (error != 0)
		return error;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	error = fd < 0 ? -errno : connect_in_time(fd, &u);
	unix_path_fini(&u);
	if (error == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return error;
}

/* Everything up to the end of the file: the length, or -errno. *text is the caller's to free. */
static ssize_t
read_all(int fd, char **text)
{
	double deadline = monotonic_seconds() + WAIT_SECONDS;
	size_t len = 0, size = 0;

	*text = NULL;
	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		double left = deadline - monotonic_seconds();
		ssize_t n;

		if (len == size) {
			char *longer = size < DOCUMENT_MAX ? realloc(*text, size + 65536) : NULL;

			if (longer == NULL)
				return -ENOMEM;
			*text = longer;
			size += 65536;
		}
		if (left <= 0 || poll(&wait, 1, (int)(left * 1000) + 1) == 0)
			return -ETIMEDOUT;
		n = read(fd, *text + len, size - len);
		if (n == 0)
			return (ssize_t)len;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		len += n > 0 ? (size_t)n : 0;
	}
}

int
status_ask(const char *path, struct json_doc **doc)
{
	int fd = connect_to(path);
	const char *detail;
	char *text = NULL;
	ssize_t len;

	*doc = NULL;
	if (fd < 0)
		return unreachable(path, strerror(-fd));
	len = read_all(fd, &text);
	close(fd);
	if (len > 0 && json_parse(doc, text, (size_t)len, NULL) != 0)
		*doc = NULL;
	free(text);
	if (len < 0)
		return unreachable(path, strerror((int)-len));
	if (len == 0)
		return unreachable(path, "it closed the connection");
	detail = json_string(json_get(json_root(*doc), "detail"), NULL);
	if (*doc != NULL && detail == NULL)
		return 0;
	fprintf(stderr, "stepctl: %s: ", path);
	print_text(stderr, detail != NULL ? detail : "the answer is no status");
	fputc('\n', stderr);
	json_free(*doc);
	*doc = NULL;
	return CTL_REFUSED;
}
