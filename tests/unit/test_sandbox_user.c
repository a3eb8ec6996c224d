/* A worker's own user: who it is afterwards, what is left of its rights, and that it still dies
   with its parent. */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/test.h"
#include "worker/sandbox_user.h"

enum { UID = 65534, GID = 65533 };

/* Exit status of `act` in a process of its own, or -1. */
static int
apart(int (*act)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(act());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int
becomes(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct before[2], after[2];
	uid_t uid[3];
	gid_t gid[3];
	int signal = 0;

	if (syscall(SYS_capget, &header, before) != 0 || sandbox_user("65534:65533") != 0)
		return 1;
	if (getresuid(&uid[0], &uid[1], &uid[2]) != 0 || getresgid(&gid[0], &gid[1], &gid[2]) != 0)
		return 2;
	for (int i = 0; i < 3; i++)
		if (uid[i] != UID || gid[i] != GID)
			return 3;
	if (getgroups(0, NULL) != 0)
		return 4;
	if (prctl(PR_GET_PDEATHSIG, &signal) != 0 || signal != SIGKILL)
		return 5;
	if (syscall(SYS_capget, &header, after) != 0 || after[0].effective != 0 ||
	    after[0].permitted != before[0].permitted)
		return 6;
	if (setresuid(0, 0, 0) == 0 || setgroups(0, NULL) == 0)
		return 7;
	return 0;
}

/* Without the rights, as any other user has none. */
static int
cannot(void)
{
	if (geteuid() == 0 && setresuid(UID, UID, UID) != 0)
		return 1;
	return sandbox_user("65533:65533") != -EPERM;
}

static int
refused(void)
{
	static const char *const wrong[] = {"", "0:0", "65534", "65534:", ":65534", "65534:65534x",
	    "nobody:nogroup", "65534:65534:1"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (sandbox_user(wrong[i]) != -EINVAL)
			return (int)i + 1;
	return 0;
}

/* The rights of this process may be fewer than the superuser's. */
static bool
may(void)
{
	return geteuid() == 0 && prctl(PR_CAPBSET_READ, CAP_SETUID, 0, 0, 0) == 1;
}

TEST(wrong_ids_are_refused)
{
	CHECK(apart(refused) == 0);
}

TEST(others_than_the_superuser_cannot)
{
	CHECK(apart(cannot) == 0);
}

TEST(the_superuser_becomes_another_for_good)
{
	if (may())
		CHECK(apart(becomes) == 0);
	else
		printf("skipped: becoming another user: not the superuser\n");
}

TEST_MAIN(TEST_CASE(wrong_ids_are_refused), TEST_CASE(others_than_the_superuser_cannot),
    TEST_CASE(the_superuser_becomes_another_for_good))
