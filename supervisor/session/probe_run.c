/* A child that looks for GPUs: waited for, but not beyond its deadline. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/monotonic.h"
#include "supervisor/session/child_exec.h"
#include "supervisor/session/child_group.h"
#include "supervisor/session/probe.h"

enum { ANSWER_MAX = 64 * 1024, KILLED_MS = 1000, LOOK_MS = 200 };

/* How long it may take, and who may end it before. */
struct patience {
	double deadline;
	const atomic_bool *stop;
};

/* 0, -ETIMEDOUT or -ECANCELED. */
static int
wait_readable(int fd, const struct patience *p)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	double left;
	int n;

	do {
		if (p->stop != NULL && atomic_load(p->stop))
			return -ECANCELED;
		left = (p->deadline - monotonic_seconds()) * 1000 + 1;
		if (p->stop != NULL && left > LOOK_MS)
			left = LOOK_MS;
		n = poll(&polled, 1, left > 0 ? (int)left : 0);
	} while (n <= 0 && monotonic_seconds() < p->deadline);
	return n > 0 ? 0 : -ETIMEDOUT;
}

/* All that it says, in a buffer of ANSWER_MAX bytes. */
static int
read_answer(int fd, const struct patience *p, char *text, size_t *len)
{
	ssize_t n;
	int error;

	for (*len = 0; *len < ANSWER_MAX; *len += (size_t)n) {
		error = wait_readable(fd, p);
		if (error != 0)
			return error;
		do
			n = read(fd, text + *len, ANSWER_MAX - *len);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			return n < 0 ? -errno : 0;
	}
	return -EBADMSG;
}

/* It and what it started. One that the driver holds in the kernel cannot be waited for. */
static int
reap(pid_t pid, int pidfd, const struct patience *p)
{
	struct patience killed = {.deadline = 0};
	int late = wait_readable(pidfd, p);
	siginfo_t info = {0};

	kill(-pid, SIGKILL);
	killed.deadline = monotonic_seconds() + KILLED_MS / 1000.0;
	if (late != 0)
		wait_readable(pidfd, &killed);
	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG) != 0 && errno == EINTR)
		continue;
	if (late != 0)
		return late;
	return info.si_code == CLD_EXITED && info.si_status == 0 ? 0 : -ECHILD;
}

static int
ask(const struct child_program *program, const struct patience *p, char *text, size_t *len)
{
	static const struct patience over = {.deadline = 0};
	struct child_group none = {.entry = -1};
	int ends[2], pidfd, error, ended;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	error = child_exec(program, ends[1], &none, &pid, &pidfd);
	close(ends[1]);
	if (error == 0) {
		error = read_answer(ends[0], p, text, len);
		/* What is not listened to any more need not go on. */
		ended = reap(pid, pidfd, error == 0 ? p : &over);
		close(pidfd);
		error = error == 0 ? ended : error;
	}
	close(ends[0]);
	return error;
}

int
probe_run(const struct probe_options *o, struct devices *out)
{
	struct child_program program = {.path = o->program,
	    .gpu = o->visible,
	    .gpus_held = o->held,
	    .no_sandbox = o->no_sandbox,
	    .uid = o->uid,
	    .gid = o->gid,
	    .probe = true};
	struct patience patience = {monotonic_seconds() + o->seconds, o->stop};
	char *text = malloc(ANSWER_MAX);
	size_t len = 0;
	int error;

	memset(out, 0, sizeof(*out));
	if (text == NULL)
		return -ENOMEM;
	error = ask(&program, &patience, text, &len);
	if (error == 0)
		error = probe_parse(text, len, out);
	free(text);
	return error;
}
