#include "worker/sandbox_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/channel.h"
#include "worker/driver_rules.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* Permissions kept: every call that a worker may make, and why. Further ones that depend on their
   arguments are in add_conditions. */
static const char *const kept[] = {
    /* memory; oneDNN and PCRE2 make machine code, so mprotect may add PROT_EXEC */
    "brk", "mmap", "mmap2", "munmap", "mprotect", "mremap", "madvise", "mlock", "munlock",
    "membarrier",
    /* answers are sealed memfds; states are written to descriptors that stepd hands over */
    "memfd_create", "ftruncate", "fallocate", "fsync", "fdatasync", "fadvise64", "read", "readv",
    "pread64", "preadv", "write", "writev", "pwrite64", "pwritev", "lseek", "_llseek", "close",
    "close_range", "dup", "dup2", "dup3",
    /* finding the model's files; which of them open is Landlock's to say */
    "stat", "lstat", "fstat", "newfstatat", "fstatat64", "statx", "access", "faccessat",
    "faccessat2", "readlink", "readlinkat", "getdents", "getdents64", "getcwd", "statfs", "fstatfs",
    /* the channel; there is no other socket */
    "sendmsg", "recvmsg", "sendto", "recvfrom", "getsockopt", "poll", "ppoll",
    /* threads (OpenMP starts them late) and where they run */
    "futex", "futex_waitv", "futex_time64", "set_robust_list", "get_robust_list", "rseq",
    "set_tid_address", "sched_yield", "sched_getaffinity", "sched_setaffinity", "getcpu", "gettid",
    "getpid", "getppid", "arch_prctl", "exit", "exit_group", "restart_syscall",
    /* time */
    "clock_gettime", "clock_gettime64", "clock_getres", "gettimeofday", "time", "times",
    "nanosleep", "clock_nanosleep", "getrusage",
    /* signals of its own */
    "rt_sigprocmask", "rt_sigreturn", "sigreturn", "sigaltstack",
    /* facts, and chance */
    "getuid", "geteuid", "getgid", "getegid", "uname", "sysinfo", "getrandom", "getrlimit",
    /* these only take more away */
    "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"};

/* What no worker does, whatever its model or its libraries: a violation, told and fatal. */
static const char *const forbidden[] = {
    /* network */
    "socket", "socketpair", "socketcall", "connect", "bind", "listen", "accept", "accept4",
    /* programs and processes; clone is in add_conditions */
    "execve", "execveat", "fork", "vfork", "setsid", "setpgid",
    /* other processes */
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_open",
    "pidfd_getfd", "pidfd_send_signal", "kcmp", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
    /* changing files by their names */
    "creat", "unlink", "unlinkat", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir",
    "link", "linkat", "symlink", "symlinkat", "mknod", "mknodat", "chmod", "fchmodat", "chown",
    "lchown", "fchownat", "truncate", "setxattr", "lsetxattr", "open_by_handle_at",
    /* other worlds and other rights */
    "mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_tree", "move_mount",
    "fsopen", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups",
    "capset", "personality", "seccomp",
    /* the kernel's wide doors */
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "keyctl", "add_key", "request_key", "init_module", "finit_module",
    "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "syslog",
    "quotactl", "acct", "iopl", "ioperm", "modify_ldt", "sethostname", "settimeofday",
    "clock_settime", "adjtimex"};

/* The leak check of AddressSanitizer. */
static const char *const sanitizer[] = {"ptrace", "process_vm_readv", "wait4", "prctl", "kill",
    "tgkill", "clone", "rt_sigaction", "sched_getparam", "pipe2", "ioctl", "prlimit64"};

static struct channel channel;
static int numbers[COUNT(forbidden)]; /* of the forbidden, for the handler */
static volatile sig_atomic_t probing, trapped;

static const char *
call_name(int number)
{
	for (size_t i = 0; i < COUNT(forbidden); i++) {
		if (numbers[i] == number)
			return forbidden[i];
	}
	return number == SYS_clone ? "clone" : "a call with forbidden arguments";
}

/* On the thread that made the call; it may hold any lock. */
static void
on_violation(int signal, siginfo_t *info, void *context)
{
	static const char start[] = "a forbidden system call: ";
	char text[sizeof(start) + 64], storage[256];
	struct wire_put w;
	size_t len = 0;

	(void)signal;
	(void)context;
	if (probing) {
		trapped = 1;
		return;
	}
	for (const char *p = start; *p != '\0'; p++)
		text[len++] = *p;
	for (const char *p = call_name(info->si_syscall); *p != '\0'; p++)
		text[len++] = *p;
	text[len] = '\0';
	if (channel.fd < 0) {
		text[len++] = '\n';
		if (write(STDERR_FILENO, text, len) < 0)
			_exit(1);
	}
	wire_put_init(&w, storage, sizeof(storage));
	message_put_last_words(&w, &(struct message_last_words){"sandbox", text});
	channel_send(&channel, MSG_LAST_WORDS, 0, storage, w.len, -1);
	/* SIGSYS is blocked in its handler: the next one is fatal, and stays the cause of death. */
	syscall(SYS_execve, "", NULL, NULL);
	_exit(1);
}

static bool
is_sanitizer(const char *name)
{
	for (size_t i = 0; SANDBOX_SANITIZED && i < COUNT(sanitizer); i++) {
		for (size_t k = 0; name[k] == sanitizer[i][k]; k++) {
			if (name[k] == '\0')
				return true;
		}
	}
	return false;
}

/* One rule for a call by its name; names that this libseccomp or processor lacks are no calls. */
static int
add(scmp_filter_ctx filter, uint32_t action, const char *name, unsigned count,
    const struct scmp_arg_cmp *args)
{
	int number = seccomp_syscall_resolve_name(name), error;

	if (number == __NR_SCMP_ERROR)
		return 0;
	if (is_sanitizer(name)) {
		action = SCMP_ACT_ALLOW;
		count = 0;
	}
	error = seccomp_rule_add_array(filter, action, number, count, args);
	return error == -EEXIST || error == -EDOM ? 0 : error;
}

static int
add_all(scmp_filter_ctx filter, uint32_t action, const char *const *names, size_t count)
{
	int error = 0;

	for (size_t i = 0; error == 0 && i < count; i++)
		error = add(filter, action, names[i], 0, NULL);
	return error;
}

static bool
is_listed(const char *const *names, const char *name)
{
	while (*names != NULL && strcmp(*names, name) != 0)
		names++;
	return *names != NULL;
}

/* What no worker does: told and fatal, but while a driver starts, whose other ways are many. */
static uint32_t
forbidding(enum sandbox_calls which)
{
	return which == CALLS_STARTING ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_TRAP;
}

static int
add_forbidden(scmp_filter_ctx filter, enum sandbox_calls which)
{
	int error = 0;

	for (size_t i = 0; error == 0 && i < COUNT(forbidden); i++) {
		if (which == CALLS_STARTING && (is_listed(driver_starting, forbidden[i]) ||
						   strcmp(forbidden[i], "socket") == 0))
			continue;
		error = add(filter, forbidding(which), forbidden[i], 0, NULL);
	}
	return error;
}

/* What NVIDIA's driver does beyond that. */
static int
add_driver(scmp_filter_ctx filter, enum sandbox_calls which)
{
	bool starting = which == CALLS_STARTING;
	int error = 0;

	for (size_t i = 0; error == 0 && driver_calls[i] != NULL; i++)
		error = add(filter, SCMP_ACT_ALLOW, driver_calls[i], 0, NULL);
	for (size_t i = 0; error == 0 && starting && driver_starting[i] != NULL; i++)
		error = add(filter, SCMP_ACT_ALLOW, driver_starting[i], 0, NULL);
	for (const struct driver_call *c = driver_arguments; error == 0 && c->name != NULL; c++) {
		struct scmp_arg_cmp args[COUNT(c->args)];
		unsigned count = 0;

		for (; count < COUNT(c->args) && c->args[count].mask != 0; count++)
			args[count] = (struct scmp_arg_cmp){c->args[count].number,
			    SCMP_CMP_MASKED_EQ, c->args[count].mask, c->args[count].value};
		if (starting || !c->starting)
			error = add(filter, SCMP_ACT_ALLOW, c->name, count, args);
	}
	return error;
}

/* Calls that are needed with some arguments only. The kernel cuts an int argument to 32 bits after
   the filter saw 64: what is allowed is compared whole, what is forbidden by its low half. */
static int
add_conditions(scmp_filter_ctx filter, enum sandbox_calls which)
{
	enum {
		WORLDS = CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC |
			 CLONE_NEWUTS | CLONE_NEWCGROUP,
		WRITES = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC,
	};
	uint64_t self = (uint64_t)getpid();
	const struct {
		const char *name;
		uint32_t action;
		struct scmp_arg_cmp arg;
	} rules[] = {
	    /* Threads, no processes. Of clone3 the filter cannot see the flags: without it, glibc
	       takes clone. */
	    {"clone", SCMP_ACT_ALLOW, {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD | WORLDS, CLONE_THREAD}},
	    {"clone", SCMP_ACT_TRAP, {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0}},
	    /* Files are read, never opened for writing. */
	    {"openat", SCMP_ACT_ALLOW, {2, SCMP_CMP_MASKED_EQ, WRITES, 0}},
	    {"openat", SCMP_ACT_ERRNO(EACCES), {2, SCMP_CMP_MASKED_EQ, O_WRONLY, O_WRONLY}},
	    {"openat", SCMP_ACT_ERRNO(EACCES), {2, SCMP_CMP_MASKED_EQ, O_RDWR, O_RDWR}},
	    {"openat", SCMP_ACT_ERRNO(EACCES), {2, SCMP_CMP_MASKED_EQ, O_CREAT, O_CREAT}},
	    {"openat", SCMP_ACT_ERRNO(EACCES), {2, SCMP_CMP_MASKED_EQ, O_TRUNC, O_TRUNC}},
	    {"open", SCMP_ACT_ALLOW, {1, SCMP_CMP_MASKED_EQ, WRITES, 0}},
	    /* Signals to itself: abort. */
	    {"tgkill", SCMP_ACT_ALLOW, {0, SCMP_CMP_EQ, self, 0}},
	    {"tgkill", SCMP_ACT_TRAP, {0, SCMP_CMP_NE, self, 0}},
	    {"kill", SCMP_ACT_ALLOW, {0, SCMP_CMP_EQ, self, 0}},
	    {"kill", SCMP_ACT_TRAP, {0, SCMP_CMP_NE, self, 0}},
	    /* A violation cannot be made to look like none. */
	    {"rt_sigaction", SCMP_ACT_ALLOW, {0, SCMP_CMP_LT, SIGSYS, 0}},
	    {"rt_sigaction", SCMP_ACT_ALLOW, {0, SCMP_CMP_EQ, SIGSYS + 1, 0}}, /* of libc: cancel */
	    {"rt_sigaction", SCMP_ACT_ALLOW, {0, SCMP_CMP_EQ, SIGSYS + 2, 0}}, /* and setxid */
	    {"rt_sigaction", SCMP_ACT_TRAP, {0, SCMP_CMP_MASKED_EQ, UINT32_MAX, SIGSYS}},
	    /* Seals and flags, but no signal for others by F_SETOWN. */
	    {"fcntl", SCMP_ACT_ALLOW, {1, SCMP_CMP_EQ, F_DUPFD, 0}},
	    {"fcntl", SCMP_ACT_ALLOW, {1, SCMP_CMP_EQ, F_DUPFD_CLOEXEC, 0}},
	    {"fcntl", SCMP_ACT_ALLOW, {1, SCMP_CMP_EQ, F_GETFD, 0}},
	    {"fcntl", SCMP_ACT_ALLOW, {1, SCMP_CMP_EQ, F_SETFD, 0}},
	    {"fcntl", SCMP_ACT_ALLOW, {1, SCMP_CMP_EQ, F_GETFL, 0}},
	    {"fcntl", SCMP_ACT_ALLOW, {1, SCMP_CMP_EQ, F_SETFL, 0}},
	    {"fcntl", SCMP_ACT_ALLOW, {1, SCMP_CMP_EQ, F_ADD_SEALS, 0}},
	    {"fcntl", SCMP_ACT_ALLOW, {1, SCMP_CMP_EQ, F_GET_SEALS, 0}},
	    /* Its own limits: thread stacks are sized by them, and they can only go down. */
	    {"prlimit64", SCMP_ACT_ALLOW, {0, SCMP_CMP_EQ, 0, 0}},
	    /* Threads and maps have names. */
	    {"prctl", SCMP_ACT_ALLOW, {0, SCMP_CMP_EQ, PR_SET_NAME, 0}},
	    {"prctl", SCMP_ACT_ALLOW, {0, SCMP_CMP_EQ, PR_SET_VMA, 0}},
	    /* stdio asks whether the log is a terminal. */
	    {"ioctl", SCMP_ACT_ALLOW, {1, SCMP_CMP_EQ, TCGETS, 0}},
	};
	int error = 0;

	for (size_t i = 0; error == 0 && i < COUNT(rules); i++) {
		uint32_t action = rules[i].action;

		/* add_driver has who may. */
		if (which != CALLS_CPU && rules[i].arg.datum_a == O_RDWR &&
		    action == SCMP_ACT_ERRNO(EACCES))
			continue;
		if (action == SCMP_ACT_TRAP)
			action = forbidding(which);
		error = add(filter, action, rules[i].name, 1, &rules[i].arg);
	}
	return error;
}

int
sandbox_calls_filter(int channel_fd, enum sandbox_calls which)
{
	struct sigaction act = {.sa_sigaction = on_violation, .sa_flags = SA_SIGINFO};
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int error;

	if (filter == NULL)
		return -ENOSYS;
	channel_init(&channel, channel_fd);
	for (size_t i = 0; i < COUNT(forbidden); i++)
		numbers[i] = seccomp_syscall_resolve_name(forbidden[i]);
	/* The calls of another architecture (32 bits) are no way round. Kernels before 4.14, and
	   gVisor, end the thread that makes them. */
	error = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (error != 0)
		error = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_THREAD);
	if (error == 0) {
		seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
		/* Kernels before 5.16 would slow all loads and stores down, to guard secrets of a
		   process from its own scripts: it has neither. */
		seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	}
	if (error == 0)
		error = add_all(filter, SCMP_ACT_ALLOW, kept, COUNT(kept));
	if (error == 0)
		error = add_forbidden(filter, which);
	if (error == 0)
		error = add_conditions(filter, which);
	if (error == 0 && which != CALLS_CPU)
		error = add_driver(filter, which);
	/* Threads of the driver are there already. */
	if (error == 0 && which == CALLS_GPU)
		error = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (error == 0 && SANDBOX_SANITIZED)
		error = add_all(filter, SCMP_ACT_ALLOW, sanitizer, COUNT(sanitizer));
	if (error == 0) {
		/* While the driver starts it is there already, and nobody can change it. */
		if (which != CALLS_GPU)
			sigaction(SIGSYS, &act, NULL);
		error = seccomp_load(filter);
		if (error != 0 && which != CALLS_GPU)
			signal(SIGSYS, SIG_DFL);
	}
	seccomp_release(filter);
	return error;
}

/* A process as fork makes it; the child of one that works ends at once. */
static long
try_process(void)
{
	long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0 && !trapped)
		_exit(0);
	if (pid > 0 && !trapped)
		waitpid((pid_t)pid, NULL, 0);
	return pid;
}

const char *
sandbox_calls_probe(void)
{
	static const char *const names[] = {"a socket", "a process", "a program", "tracing"};
	const char *worked = NULL;
	int fd;

	probing = 1;
	for (size_t i = 0; worked == NULL && i < COUNT(names); i++) {
		if (SANDBOX_SANITIZED && (i == 1 || i == 3))
			continue;
		trapped = 0;
		if (i == 0)
			syscall(SYS_socket, 1, 1, 0);
		else if (i == 1)
			try_process();
		else if (i == 2)
			syscall(SYS_execve, "", NULL, NULL);
		else
			syscall(SYS_ptrace, PTRACE_PEEKDATA, 0, NULL, NULL);
		if (!trapped)
			worked = names[i];
	}
	probing = 0;
	fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		if (worked == NULL)
			worked = "opening a file for writing";
	}
	return worked;
}
