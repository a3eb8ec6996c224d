/* Runs a program and tells what the kernel refused it: each system call that failed by EACCES,
   EPERM or ENOSYS, once, with the path where it names one; and the call that ended it by SIGSYS.
   For a driver in the worker's sandbox: `refused stepd-worker-cuda --probe`. Exit status: the
   program's, 128 + the signal that ended it, or 2. */
#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 1024, TOLD = 512, LINE = 512, SYSCALL_STOP = SIGTRAP | 0x80 };

/* What each thread is calling. */
static struct call {
	pid_t tid;
	uint64_t number, args[6];
} calls[THREADS];
static char told[TOLD][LINE];
static size_t told_count;

static struct call *
find(pid_t tid)
{
	for (size_t i = 0; i < THREADS; i++) {
		if (calls[i].tid == tid || calls[i].tid == 0) {
			calls[i].tid = tid;
			return &calls[i];
		}
	}
	return NULL;
}

/* A string of the program; "?" where it cannot be read. */
static const char *
read_string(pid_t tid, uint64_t at, char out[256])
{
	size_t len = 0;

	for (; at != 0 && len < 248; len += sizeof(long)) {
		errno = 0;
		long word = ptrace(PTRACE_PEEKDATA, tid, at + len, NULL);

		if (errno != 0)
			break;
		memcpy(out + len, &word, sizeof(word));
		if (memchr(&word, 0, sizeof(word)) != NULL)
			return out;
	}
	if (len == 0)
		out[len++] = '?';
	out[len] = '\0';
	return out;
}

/* Which argument is a path, or -1. */
static int
path_of(const char *name)
{
	static const char *const first[] = {"open", "stat", "lstat", "access", "readlink", "mkdir",
	    "chmod", "mknod", "unlink", "execve", "statfs", "creat", "rename", "chown", "rmdir"};
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++) {
		if (strcmp(name, first[i]) == 0)
			return 0;
	}
	return (len > 2 && strcmp(name + len - 2, "at") == 0) || strcmp(name, "openat2") == 0 ||
		       strcmp(name, "statx") == 0 || strcmp(name, "faccessat2") == 0
		   ? 1
		   : -1;
}

static void
tell(const char *line)
{
	for (size_t i = 0; i < told_count; i++) {
		if (strcmp(told[i], line) == 0)
			return;
	}
	if (told_count < TOLD)
		snprintf(told[told_count++], LINE, "%s", line);
	printf("refused: %s\n", line);
}

static void
tell_call(const struct call *c, int error)
{
	char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)c->number);
	char line[LINE], text[256] = "";
	int path = name != NULL ? path_of(name) : -1;

	if (path >= 0)
		read_string(c->tid, c->args[path], text);
	/* Tried by the sandbox itself, to see that it holds. */
	if (path >= 0 && (strcmp(text, "/") == 0 || strcmp(text, "/dev/null") == 0))
		goto out;
	if (path >= 0)
		snprintf(line, sizeof(line), "%s %s: %s", name, text, strerror(error));
	else
		snprintf(line, sizeof(line), "%s(%#llx, %#llx, %#llx): %s",
		    name != NULL ? name : "?", (unsigned long long)c->args[0],
		    (unsigned long long)c->args[1], (unsigned long long)c->args[2],
		    strerror(error));
	tell(line);
out:
	free(name);
}

static void
on_syscall(pid_t tid)
{
	struct __ptrace_syscall_info info = {0};
	struct call *c = find(tid);
	long n = ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info);

	if (n <= 0 || c == NULL)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		c->number = info.entry.nr;
		memcpy(c->args, info.entry.args, sizeof(c->args));
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.is_error &&
		   (info.exit.rval == -EACCES || info.exit.rval == -EPERM ||
		       info.exit.rval == -ENOSYS)) {
		tell_call(c, (int)-info.exit.rval);
	}
}

/* Goes on until the first process has ended; its wait status. */
static int
trace(pid_t first)
{
	int status, last = 0;
	pid_t tid;

	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		int pass = 0;

		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			struct call *c = find(tid);

			if (c != NULL)
				c->tid = -1;
			if (tid == first)
				last = status;
			continue;
		}
		if (WSTOPSIG(status) == SYSCALL_STOP)
			on_syscall(tid);
		else if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP)
			pass = WSTOPSIG(status);
		ptrace(PTRACE_SYSCALL, tid, NULL, pass);
	}
	return last;
}

int
main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc < 2) {
		fputs("usage: refused PROGRAM [ARGUMENT...]\n", stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execv(argv[1], argv + 1);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, pid, NULL,
		PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
		    PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) != 0 ||
	    ptrace(PTRACE_SYSCALL, pid, NULL, NULL) != 0) {
		perror("refused");
		return 2;
	}
	status = trace(pid);
	if (WIFSIGNALED(status))
		printf("refused: ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
