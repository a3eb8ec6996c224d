/* The worker's sandbox from inside: what is forbidden ends a process by SIGSYS, what is needed
 * works. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/channel.h"
#include "kernels/compute.h"
#include "tests/unit/test.h"
#include "worker/sandbox.h"
#include "worker/sandbox_calls.h"

enum { ENTER = 1, FILES = 2, REFUSED = 77 };

/* folder/model has a plain file and two links: to a file beside the folder, and to a folder. */
static char folder[64], model[80], outside[80], spool_path[80];
static int pair[2] = {-1, -1}, spool = -1;

static void
write_file(const char *path, const char *words)
{
	FILE *file = fopen(path, "w");

	CHECK(file != NULL && fputs(words, file) >= 0);
	if (file != NULL)
		fclose(file);
}

static void
set_up(void)
{
	char path[128];

	strcpy(folder, "/tmp/sandbox-XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	snprintf(model, sizeof(model), "%s/model", folder);
	snprintf(outside, sizeof(outside), "%s/outside", folder);
	snprintf(spool_path, sizeof(spool_path), "%s/spool", folder);
	CHECK(mkdir(model, 0755) == 0);
	snprintf(path, sizeof(path), "%s/blob", folder);
	write_file(path, "linked");
	write_file(outside, "not for you");
	snprintf(path, sizeof(path), "%s/config.json", model);
	write_file(path, "{}");
	snprintf(path, sizeof(path), "%s/tokenizer.json", model);
	CHECK(symlink("../blob", path) == 0);
	snprintf(path, sizeof(path), "%s/up", model);
	CHECK(symlink("..", path) == 0);
	spool = open(spool_path, O_RDWR | O_CREAT, 0600);
	CHECK(spool >= 0 && channel_pair(pair) == 0);
}

static void
tear_down(void)
{
	static const char *const names[] = {"model/config.json", "model/tokenizer.json", "model/up",
	    "model", "blob", "outside", "spool"};
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		CHECK(remove(path) == 0);
	}
	rmdir(folder);
	close(spool);
	close(pair[0]);
	close(pair[1]);
}

/* Runs `act` in a process of its own, in the sandbox as far as `steps` say: the wait status. */
static int
in_sandbox(int steps, int (*act)(void))
{
	struct refusal r;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if ((steps & ENTER) != 0 && sandbox_enter(pair[1], NULL, NULL) != 0)
			_exit(101);
		if ((steps & FILES) != 0 && sandbox_files(model, &r) != 0)
			_exit(102);
		_exit(act());
	}
	waitpid(pid, &status, 0);
	return status;
}

static bool
exited(int status, int code)
{
	return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

#define ACT(name, statement)                                                                       \
	static int act_##name(void)                                                                \
	{                                                                                          \
		statement;                                                                         \
		return 0;                                                                          \
	}
ACT(socket, socket(AF_UNIX, SOCK_STREAM, 0))
ACT(socketpair, int fds[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
ACT(connect, connect(pair[1], NULL, 0))
ACT(bind, bind(pair[1], NULL, 0))
ACT(execve, execl("/bin/true", "true", NULL))
ACT(execveat, syscall(SYS_execveat, AT_FDCWD, "/bin/true", NULL, NULL, 0))
ACT(unshare, unshare(CLONE_NEWUSER))
ACT(mount, syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL))
ACT(chroot, if (chroot("/tmp")){})
ACT(unlink, unlink(outside))
ACT(mkdir, mkdir("/tmp/sandbox-made", 0700))
ACT(chmod, chmod(outside, 0777))
ACT(symlink, if (symlink("/", "/tmp/sandbox-link")){})
ACT(by_handle, syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, O_RDONLY))
ACT(setuid, if (setuid(0)){})
ACT(capset, syscall(SYS_capset, NULL, NULL))
ACT(bpf, syscall(SYS_bpf, 0, NULL, 0))
ACT(io_uring, syscall(SYS_io_uring_setup, 1, NULL))
ACT(userfaultfd, syscall(SYS_userfaultfd, 0))
ACT(pidfd, syscall(SYS_pidfd_open, getppid(), 0))
ACT(vm_write, process_vm_writev(getppid(), NULL, 0, NULL, 0, 0))
/* The leak check of AddressSanitizer does these. */
ACT(fork, if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) == 0) _exit(0))
ACT(ptrace, ptrace(PTRACE_ATTACH, getppid(), NULL, NULL))
ACT(vm_read, process_vm_readv(getppid(), NULL, 0, NULL, 0, 0))
ACT(kill, kill(getppid(), 0))
ACT(tgkill, syscall(SYS_tgkill, getppid(), getppid(), 0))
ACT(sigaction, signal(SIGSYS, SIG_IGN))
ACT(wide, syscall(SYS_rt_sigaction, SIGSYS | 1L << 32, NULL, NULL, 8))

#define ENTRY(name)                                                                                \
	{                                                                                          \
#name, act_##name                                                                  \
	}

TEST(forbidden_calls_end_by_sigsys)
{
	static const struct {
		const char *name;
		int (*act)(void);
	} acts[] = {ENTRY(socket), ENTRY(socketpair), ENTRY(connect), ENTRY(bind), ENTRY(execve),
	    ENTRY(execveat), ENTRY(unshare), ENTRY(mount), ENTRY(chroot), ENTRY(unlink),
	    ENTRY(mkdir), ENTRY(chmod), ENTRY(symlink), ENTRY(by_handle), ENTRY(setuid),
	    ENTRY(capset), ENTRY(bpf), ENTRY(io_uring), ENTRY(userfaultfd), ENTRY(pidfd),
	    ENTRY(vm_write), ENTRY(fork), ENTRY(ptrace), ENTRY(vm_read), ENTRY(kill), ENTRY(tgkill),
	    ENTRY(sigaction), ENTRY(wide)};
	size_t count = sizeof(acts) / sizeof(*acts);

	set_up();
	if (SANDBOX_SANITIZED)
		count -= 7;
	for (size_t i = 0; i < count; i++) {
		int status = in_sandbox(ENTER, acts[i].act);

		CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%s: status %#x",
		    acts[i].name, status);
	}
	CHECK(access("/tmp/sandbox-made", F_OK) != 0 && access("/tmp/sandbox-link", F_OK) != 0);
	tear_down();
}

TEST(a_violation_is_told)
{
	struct message_last_words words;
	struct channel channel;
	struct message m;

	set_up();
	in_sandbox(ENTER, act_io_uring);
	channel_init(&channel, pair[0]);
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	CHECK(channel_recv(&channel, &m) == 1 && m.type == MSG_LAST_WORDS && m.request == 0);
	CHECK(message_get_last_words(&m.body, &words) == 0);
	CHECK_STR(words.class, "sandbox");
	CHECK_STR(words.text, "a forbidden system call: io_uring_setup");
	/* Nothing else was said: what was tried from inside is no violation. */
	CHECK(channel_recv(&channel, &m) == -EAGAIN);
	tear_down();
}

/* The number of what did not behave, or 0. */
static int
act_refusals(void)
{
	const char *lacks = strstr(sandbox_text(), "; without ");
	bool files = !SANDBOX_SANITIZED && (lacks == NULL || strstr(lacks, "files") == NULL);
	char path[128];

	if (open(outside, O_WRONLY) >= 0 || errno != EACCES)
		return 1;
	if (open(outside, O_RDWR) >= 0 || errno != EACCES)
		return 2;
	snprintf(path, sizeof(path), "%s/new", model);
	if (open(path, O_CREAT | O_RDONLY, 0600) >= 0 || errno != EACCES)
		return 3;
	if (files && (open(outside, O_RDONLY) >= 0 || errno != EACCES))
		return 4;
	if (files && (open("/etc/passwd", O_RDONLY) >= 0 || errno != EACCES))
		return 5;
	/* A link to a folder opens nothing in it. */
	snprintf(path, sizeof(path), "%s/up/outside", model);
	if (files && (open(path, O_RDONLY) >= 0 || errno != EACCES))
		return 6;
	if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
		return 7;
	if (syscall(SYS_splice, 0, NULL, 0, NULL, 0, 0) != -1 || errno != ENOSYS)
		return 8;
	if (!SANDBOX_SANITIZED && (fcntl(pair[1], F_SETOWN, getppid()) != -1 || errno != ENOSYS))
		return 9;
	return REFUSED;
}

TEST(other_files_do_not_open)
{
	int status;

	set_up();
	status = in_sandbox(ENTER | FILES, act_refusals);
	CHECK_MSG(exited(status, REFUSED), "status %#x", status);
	tear_down();
}

static void *
add_one(void *arg)
{
	*(int *)arg += 1;
	return NULL;
}

/* Machine code made now: `return 42`, where this processor's is known. */
static bool
runs_made_code(void)
{
#if defined(__x86_64__)
	static const uint8_t code[] = {0xb8, 42, 0, 0, 0, 0xc3};
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int (*made)(void);

	if (page == MAP_FAILED)
		return false;
	memcpy(page, code, sizeof(code));
	if (mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return false;
	memcpy(&made, &page, sizeof(made));
	return made() == 42;
#else
	return true;
#endif
}

static bool
reads(const char *name, const char *want)
{
	char path[128], got[16] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/%s", model, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, got, sizeof(got) - 1) > 0 && strcmp(got, want) == 0 &&
	       close(fd) == 0;
}

static int
act_needs(void)
{
	struct op_options options = {.threads = 2};
	struct channel channel;
	struct compute_speed speed;
	pthread_t thread;
	int number = 1, fd;

	if (!reads("config.json", "{}") || !reads("tokenizer.json", "linked"))
		return 1;
	if (!runs_made_code())
		return 2;
	if (pthread_create(&thread, NULL, add_one, &number) != 0 ||
	    pthread_join(thread, NULL) != 0 || number != 2)
		return 3;
	/* oneDNN makes its code, OpenMP starts its threads. */
	if (compute_measure(&speed, &options, 64, 64, 64) != OP_OK)
		return 4;
	fd = blob_from("answer", "sealed", 6);
	channel_init(&channel, pair[1]);
	if (fd < 0 || channel_send(&channel, MSG_RENDERED, 1, NULL, 0, fd) != 0)
		return 5;
	if (write(spool, "state", 5) != 5 || fsync(spool) != 0)
		return 6;
	return 0;
}

TEST(what_is_needed_works)
{
	struct channel channel;
	struct message m = {.fd = -1};
	char got[8] = "";
	int status;

	set_up();
	status = in_sandbox(ENTER | FILES, act_needs);
	CHECK_MSG(exited(status, 0), "status %#x", status);
	channel_init(&channel, pair[0]);
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	CHECK(channel_recv(&channel, &m) == 1 && m.type == MSG_RENDERED && m.fd >= 0);
	CHECK(pread(m.fd, got, 6, 0) == 6 && strcmp(got, "sealed") == 0);
	close(m.fd);
	CHECK(pread(spool, got, 5, 0) == 5 && memcmp(got, "state", 5) == 0);
	tear_down();
}

ACT(abort, abort())

TEST(a_crash_stays_a_crash)
{
	int status;

	set_up();
	status = in_sandbox(ENTER | FILES, act_abort);
	CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %#x", status);
	CHECK(!WCOREDUMP(status));
	tear_down();
}

/* A kernel without Landlock, in a container that makes no namespaces. */
static int
act_degraded(void)
{
	scmp_filter_ctx kernel = seccomp_init(SCMP_ACT_ALLOW);
	struct refusal r;

	seccomp_rule_add(kernel, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(landlock_create_ruleset), 0);
	seccomp_rule_add(kernel, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 0);
	if (seccomp_load(kernel) != 0 || sandbox_enter(pair[1], "auto", NULL) != 0 ||
	    sandbox_files(model, &r) != 0)
		return 10;
	seccomp_release(kernel);
	if (strcmp(sandbox_text(), "capabilities, system calls; without network (Operation not "
				   "permitted), files (Function not implemented)") != 0) {
		puts(sandbox_text());
		fflush(stdout);
		return 11;
	}
	/* No Landlock, but still no writing. */
	if (open(outside, O_WRONLY) >= 0 || open(outside, O_RDONLY) < 0)
		return 12;
	return act_needs();
}

static int
act_off(void)
{
	struct refusal r;

	if (sandbox_enter(pair[1], "off", NULL) != 0 || sandbox_files(model, &r) != 0)
		return 1;
	return strcmp(sandbox_text(), "off") != 0 || socket(AF_UNIX, SOCK_STREAM, 0) < 0;
}

TEST(it_does_with_what_there_is)
{
	int status;

	set_up();
	status = in_sandbox(0, act_degraded);
	CHECK_MSG(exited(status, 0), "status %#x", status);
	CHECK(exited(in_sandbox(0, act_off), 0));
	tear_down();
}

static int
act_probe(void)
{
	const char *worked = sandbox_calls_probe();

	return worked == NULL || strcmp(worked, "a socket") != 0;
}

TEST(a_sandbox_that_does_not_hold_is_noticed)
{
	set_up();
	CHECK(exited(in_sandbox(0, act_probe), 0));
	tear_down();
}

TEST_MAIN(TEST_CASE(forbidden_calls_end_by_sigsys), TEST_CASE(a_violation_is_told),
    TEST_CASE(other_files_do_not_open), TEST_CASE(what_is_needed_works),
    TEST_CASE(a_crash_stays_a_crash), TEST_CASE(it_does_with_what_there_is),
    TEST_CASE(a_sandbox_that_does_not_hold_is_noticed))
