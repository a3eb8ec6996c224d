#include "supervisor/session/child_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/session/child_group.h"

enum { CHOICES_MAX = 5, CHOICE_MAX = 1280 };

extern char **environ;

/* What a worker may know of the environment: how to compute and how to be debugged. Everything
   else, tokens above all, stays here. A trailing '*' stands for any rest. */
static const char *const passed[] = {"PATH=*", "TZ=*", "LANG=*", "LC_*", "LD_LIBRARY_PATH=*",
    "OMP_*", "GOMP_*", "DNNL_*", "ONEDNN_*", "CUDA_*", "NVIDIA_*", "ASAN_OPTIONS=*",
    "UBSAN_OPTIONS=*", "LSAN_OPTIONS=*", "JOURNAL_STREAM=*", "STEPD_LOG_LEVEL=*", "STEPD_SANDBOX=*",
    "STEPD_CUDA_GRAPHS=*"};

static bool
is_passed(const char *entry)
{
	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++) {
		if (strncmp(entry, passed[i], strlen(passed[i]) - 1) == 0)
			return true;
	}
	return false;
}

/* libgomp's threads spin some 30 us for their next loop, then sleep: with its default of
   milliseconds, other work on the machine makes a step many times slower. The operator's own value
   wins: the first of two entries is the one that counts. */
static char spin_count[] = "GOMP_SPINCOUNT=20000";
/* GPUs counted by where they are, as nvidia-smi does, not the fastest first: STEPD_DEVICES names
   them so. */
static char device_order[] = "CUDA_DEVICE_ORDER=PCI_BUS_ID";

/* What stepd chose for this one program, as entries of its environment. */
struct chosen {
	char entries[CHOICES_MAX][CHOICE_MAX];
	size_t count;
};

__attribute__((format(printf, 2, 3))) static void
choose(struct chosen *chosen, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(chosen->entries[chosen->count++], CHOICE_MAX, format, args);
	va_end(args);
}

static void
choose_all(struct chosen *chosen, const struct child_program *program)
{
	chosen->count = 0;
	if (program->gpu != NULL)
		choose(chosen, "CUDA_VISIBLE_DEVICES=%s", program->gpu);
	if (program->gpu_bus != NULL)
		choose(chosen, "STEPD_GPU_BUS=%s", program->gpu_bus);
	if (program->gpus_held != NULL)
		choose(chosen, "STEPD_GPUS_HELD=%s", program->gpus_held);
	if (program->no_sandbox)
		choose(chosen, "STEPD_SANDBOX=off");
	if (program->uid != 0)
		choose(chosen, "STEPD_WORKER_USER=%lu:%lu", (unsigned long)program->uid,
		    (unsigned long)program->gid);
}

/* One of that name was chosen. */
static bool
is_chosen(const struct chosen *chosen, const char *entry)
{
	for (size_t i = 0; i < chosen->count; i++) {
		if (strncmp(chosen->entries[i], entry, strcspn(chosen->entries[i], "=") + 1) == 0)
			return true;
	}
	return false;
}

/* A NULL-terminated array of views: what was chosen, and the rest of what may be known of environ;
   freed by the caller. */
static char **
clean_environment(struct chosen *chosen)
{
	size_t count = 0, kept = 0;
	char **clean;

	while (environ[count] != NULL)
		count++;
	clean = calloc(count + CHOICES_MAX + 3, sizeof(*clean));
	if (clean == NULL)
		return NULL;
	for (size_t i = 0; i < chosen->count; i++)
		clean[kept++] = chosen->entries[i];
	for (size_t i = 0; i < count; i++) {
		if (is_passed(environ[i]) && !is_chosen(chosen, environ[i]))
			clean[kept++] = environ[i];
	}
	clean[kept++] = spin_count;
	clean[kept] = device_order;
	return clean;
}

/* Into its group, while all that it has is a copy of stepd; what the program takes is counted
   there. 0, or -1 with errno. */
static int
set_limits(const struct child_group *group)
{
	struct rlimit data = {(rlim_t)group->data, (rlim_t)group->data};

	if (group->entry >= 0 && write(group->entry, "0", 1) < 0)
		return -1;
	return group->data > 0 ? setrlimit(RLIMIT_DATA, &data) : 0;
}

/* In the new process, where other threads may have held any lock: system calls only. Tells its
   errno through `report` if it cannot become the program. */
static void
become(const struct child_program *program, int socket, const struct child_group *group, int report,
    pid_t parent, char **clean)
{
	char name[] = "stepd-worker", channel[] = "--channel", fd[] = "3", probe[] = "--probe";
	char *argv[] = {name, program->probe ? probe : channel, program->probe ? NULL : fd, NULL};
	struct sigaction standard = {.sa_handler = SIG_DFL};
	sigset_t none;
	int error, null;

	/* No signal handler of stepd may run here. */
	for (int i = 1; i < NSIG; i++)
		sigaction(i, &standard, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Not reached by the terminal's Ctrl-C: stepd decides when a worker ends. */
	setpgid(0, 0);
	/* No descendant outlives stepd, however stepd ends. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		goto fail;
	/* No setuid program gives it back what stepd lacks. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		goto fail;
	if (set_limits(group) != 0)
		goto fail;
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0)
		goto fail;
	/* Moved out of the way of the numbers they shall not have. */
	socket = fcntl(socket, F_DUPFD_CLOEXEC, CHILD_CHANNEL_FD + 2);
	report = fcntl(report, F_DUPFD_CLOEXEC, CHILD_CHANNEL_FD + 2);
	if (socket < 0 || report < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0 ||
	    dup2(socket, CHILD_CHANNEL_FD) < 0 || dup2(report, CHILD_CHANNEL_FD + 1) < 0 ||
	    fcntl(CHILD_CHANNEL_FD + 1, F_SETFD, FD_CLOEXEC) != 0)
		goto fail;
	if (program->probe &&
	    (dup2(socket, 1) < 0 || fcntl(CHILD_CHANNEL_FD, F_SETFD, FD_CLOEXEC) != 0))
		goto fail;
	report = CHILD_CHANNEL_FD + 1;
	if (syscall(SYS_close_range, CHILD_CHANNEL_FD + 2, ~0u, 0) != 0)
		goto fail;
	execve(program->path, argv, clean);
fail:
	error = errno;
	if (write(report, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

int
child_exec_check(void)
{
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (pidfd < 0)
		return -errno;
	close(pidfd);
	/* Of no descriptor at all. */
	return syscall(SYS_close_range, ~0u, ~0u, 0) == 0 ? 0 : -errno;
}

int
child_exec(const struct child_program *program, int socket, const struct child_group *group,
    pid_t *pid, int *pidfd)
{
	struct chosen chosen;
	char **clean;
	pid_t parent = getpid();
	int report[2] = {-1, -1}, error = 0;
	ssize_t n;

	*pid = -1;
	*pidfd = -1;
	choose_all(&chosen, program);
	clean = clean_environment(&chosen);
	if (clean == NULL)
		return -ENOMEM;
	if (pipe2(report, O_CLOEXEC) != 0 || (*pid = fork()) < 0) {
		error = errno;
		goto out;
	}
	if (*pid == 0)
		become(program, socket, group, report[1], parent, clean);
	close(report[1]);
	report[1] = -1;
	/* Ends at once: at exec, when the pipe closes by itself, or with the reason why not. */
	do
		n = read(report[0], &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(error)) {
		*pidfd = (int)syscall(SYS_pidfd_open, *pid, 0);
		error = *pidfd < 0 ? errno : 0;
		if (error == 0)
			fcntl(*pidfd, F_SETFD, FD_CLOEXEC);
	}
	if (error != 0) {
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
		*pid = -1;
	}
out:
	for (int i = 0; i < 2; i++) {
		if (report[i] >= 0)
			close(report[i]);
	}
	free(clean);
	return -error;
}
