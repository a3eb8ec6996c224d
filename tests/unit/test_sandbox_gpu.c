/* The sandbox of a worker on a GPU: what a driver may do while it starts, and what is left when it
   has started, on the threads that it has by then too. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/channel.h"
#include "tests/unit/test.h"
#include "worker/sandbox.h"
#include "worker/sandbox_calls.h"

static int pair[2] = {-1, -1}, null = -1; /* null: a device that is open */
static const char *user;		  /* for the superuser: another one */

/* Runs `act` in a process of its own that has entered as one on a GPU: the wait status. */
static int
in_sandbox(int (*act)(void))
{
	struct refusal r;
	int status = -1;
	pid_t pid;

	CHECK(channel_pair(pair) == 0);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	user = geteuid() == 0 ? "65534:65534" : NULL;
	pid = fork();
	if (pid == 0) {
		sandbox_for_gpu(&(struct driver_choice){NULL, NULL});
		if (sandbox_enter(pair[1], NULL, user) != 0 || sandbox_files(NULL, &r) != 0)
			_exit(101);
		_exit(act());
	}
	waitpid(pid, &status, 0);
	return status;
}

static void
put_away(void)
{
	close(pair[0]);
	close(pair[1]);
	close(null);
}

static bool
files_hold(void)
{
	const char *lacks = strstr(sandbox_text(), "; without ");

	return !SANDBOX_SANITIZED && (lacks == NULL || strstr(lacks, "files") == NULL);
}

#define REFUSED(call, code) ((call) == -1 && errno == (code))

/* A thread of the driver's, which does what it is told. */
static volatile pid_t driver_tid;
static volatile int order; /* 1: a forbidden call */

static void *
driver_thread(void *arg)
{
	driver_tid = (pid_t)syscall(SYS_gettid);
	while (order == 0)
		sched_yield();
	socket(AF_UNIX, SOCK_STREAM, 0);
	return arg;
}

/* The number of what did not behave, or 0. */
static int
start_driver(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0cuda-uvmfd-0-0"};
	char path[64];
	pthread_t thread;
	int fd, ends[2];

	/* libcuda's listener. */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof(name)) != 0 || listen(fd, 8) != 0)
		return 1;
	if (eventfd(0, EFD_CLOEXEC) < 0 || pipe2(ends, O_CLOEXEC) != 0)
		return 2;
	if (pthread_create(&thread, NULL, driver_thread, NULL) != 0)
		return 3;
	while (driver_tid == 0)
		sched_yield();
	/* Its name, from another thread. Refused, cuInit fails. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)driver_tid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || write(fd, "cuda-EvtHandlr", 14) != 14)
		return 4;
	/* By its name no file is written: stepd may have forbidden it. */
	if (pthread_setname_np(thread, "other") != 0 ||
	    pthread_setname_np(pthread_self(), "it") != 0)
		return 5;
	if (pread(fd, path, 14, 0) != 14 || memcmp(path, "cuda-EvtHandlr", 14) != 0)
		return 5;
	if (open("/proc/self/maps", O_RDONLY | O_CLOEXEC) < 0 ||
	    open("/proc/meminfo", O_RDONLY | O_CLOEXEC) < 0)
		return 6;
	return 0;
}

/* What a driver tries, and does without: nothing of it ends the process. */
static int
act_starting(void)
{
	if (start_driver() != 0)
		return 1;
	if (!REFUSED(socket(AF_INET, SOCK_STREAM, 0), ENOSYS) ||
	    !REFUSED(socket(AF_UNIX, SOCK_STREAM, 0), ENOSYS) ||
	    !REFUSED(socket(AF_UNIX, SOCK_DGRAM, 0), ENOSYS))
		return 2;
	/* nvidia-modprobe is never started. */
	if (!SANDBOX_SANITIZED &&
	    (!REFUSED(syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL), EPERM) ||
		!REFUSED(fork(), EPERM)))
		return 3;
	if (!REFUSED(syscall(SYS_vfork), EPERM) ||
	    !REFUSED(execl("/bin/true", "true", NULL), EPERM))
		return 4;
	if (!REFUSED(mknod("/tmp/sandbox-made", S_IFCHR | 0600, 0x103), EPERM) ||
	    !REFUSED(mkdir("/tmp/sandbox-made", 0700), EPERM) ||
	    !REFUSED(chmod("/tmp", 0700), EPERM))
		return 5;
	if (!REFUSED(connect(pair[1], NULL, 0), EPERM) ||
	    !REFUSED(syscall(SYS_bpf, 0, NULL, 0), EPERM) ||
	    !REFUSED(syscall(SYS_unshare, CLONE_NEWUSER), EPERM))
		return 6;
	if (files_hold() && (!REFUSED(open("/etc/passwd", O_RDONLY), EACCES) ||
				!REFUSED(open("/dev/null", O_RDWR), EACCES)))
		return 7;
	if (!REFUSED(open("/tmp/sandbox-made", O_RDWR | O_CREAT, 0600), EACCES) ||
	    !REFUSED(open("/dev/null", O_WRONLY), EACCES))
		return 8;
	/* Commands of a driver, and those of a terminal. */
	if (!REFUSED(ioctl(null, _IOC(3u, 'F', 0x2a, 32), NULL), ENOTTY) ||
	    !REFUSED(ioctl(null, 75, NULL), ENOTTY) ||
	    !REFUSED(ioctl(null, 0x30000001, NULL), ENOTTY))
		return 9;
	if (!SANDBOX_SANITIZED && (!REFUSED(ioctl(null, TIOCSTI, "x"), ENOSYS) ||
				      !REFUSED(ioctl(null, 0x30000003, NULL), ENOSYS)))
		return 10;
	return 0;
}

TEST(a_driver_starts)
{
	int status = in_sandbox(act_starting);

	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	put_away();
}

static int
act_closed(void)
{
	struct refusal r;
	if (start_driver() != 0)
		return 1;
	if (sandbox_close(&r) != 0)
		return 2;
	if (strstr(sandbox_text(), "system calls") == NULL)
		return 3;
	/* It still has its commands, and no more than those. */
	if (!REFUSED(ioctl(null, _IOC(3u, 'F', 0x2a, 32), NULL), ENOTTY) ||
	    (!SANDBOX_SANITIZED && !REFUSED(ioctl(null, TIOCSTI, "x"), ENOSYS)))
		return 4;
	if (files_hold() && !REFUSED(open("/dev/null", O_RDWR), EACCES))
		return 5;
	if (eventfd(0, EFD_CLOEXEC) < 0)
		return 6;
	/* Closed once is closed: nothing is tried or told a second time. */
	return sandbox_close(&r) == 0 && sandbox_files("/", &r) == 0 ? 0 : 7;
}

TEST(it_closes_when_the_driver_has_started)
{
	int status = in_sandbox(act_closed);

	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
	put_away();
}

static int
close_then(int (*act)(void))
{
	struct refusal r;

	if (start_driver() != 0 || sandbox_close(&r) != 0)
		return 102;
	return act();
}

#define ACT(name, statement)                                                                       \
	static int do_##name(void)                                                                 \
	{                                                                                          \
		statement;                                                                         \
		return 0;                                                                          \
	}                                                                                          \
	static int act_##name(void)                                                                \
	{                                                                                          \
		return close_then(do_##name);                                                      \
	}
ACT(bind, bind(pair[1], NULL, 0))
ACT(listen, listen(pair[1], 1))
ACT(accept, accept(pair[1], NULL, NULL))
ACT(socket, socket(AF_UNIX, SOCK_SEQPACKET, 0))
ACT(execve, execl("/bin/true", "true", NULL))
ACT(mknodat, mknod("/tmp/sandbox-made", S_IFCHR | 0600, 0x103))
ACT(seccomp, syscall(SYS_seccomp, 0, 0, NULL))
ACT(other, order = 1; sleep(30))

TEST(a_closed_one_ends_by_a_forbidden_call)
{
	static const struct {
		const char *name;
		int (*act)(void);
	} acts[] = {{"bind", act_bind}, {"listen", act_listen}, {"accept", act_accept},
	    {"socket", act_socket}, {"execve", act_execve}, {"mknodat", act_mknodat},
	    {"seccomp", act_seccomp},
	    /* a thread that was there before */
	    {"socket", act_other}};

	for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++) {
		int status = in_sandbox(acts[i].act);
		struct message_last_words words;
		struct channel channel;
		struct message m;
		char text[64];

		CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%zu %s: status %#x",
		    i, acts[i].name, status);
		channel_init(&channel, pair[0]);
		fcntl(pair[0], F_SETFL, O_NONBLOCK);
		CHECK(channel_recv(&channel, &m) == 1 && m.type == MSG_LAST_WORDS);
		CHECK(message_get_last_words(&m.body, &words) == 0);
		snprintf(text, sizeof(text), "a forbidden system call: %s", acts[i].name);
		CHECK_STR(words.text, text);
		put_away();
	}
	CHECK(access("/tmp/sandbox-made", F_OK) != 0);
}

/* What Landlock would not hold. */
static int
early_thread(void)
{
	struct refusal r;
	pthread_t thread;

	sandbox_for_gpu(&(struct driver_choice){NULL, NULL});
	if (sandbox_enter(-1, NULL, NULL) != 0 ||
	    pthread_create(&thread, NULL, driver_thread, NULL) != 0)
		return 1;
	if (sandbox_files(NULL, &r) != -1 || r.status != 503)
		return 2;
	/* Nor the second time, as if it had been done. */
	return sandbox_files(NULL, &r) == -1 ? 0 : 3;
}

TEST(a_thread_that_was_there_before)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(early_thread());
	waitpid(pid, &status, 0);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

static int
act_off(void)
{
	struct refusal r;

	return sandbox_close(&r) == 0 && strcmp(sandbox_text(), "off") == 0 &&
		       socket(AF_UNIX, SOCK_STREAM, 0) >= 0
		   ? 0
		   : 1;
}

TEST(it_can_be_off)
{
	struct refusal r;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		sandbox_for_gpu(&(struct driver_choice){NULL, NULL});
		_exit(sandbox_enter(-1, "off", NULL) == 0 && sandbox_files("/", &r) == 0 ? act_off()
											 : 2);
	}
	waitpid(pid, &status, 0);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

TEST_MAIN(TEST_CASE(a_driver_starts), TEST_CASE(it_closes_when_the_driver_has_started),
    TEST_CASE(a_closed_one_ends_by_a_forbidden_call), TEST_CASE(a_thread_that_was_there_before),
    TEST_CASE(it_can_be_off))
