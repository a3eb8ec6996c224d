#include "worker/sandbox_user.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int
sandbox_user(const char *ids)
{
	pid_t parent = getppid();
	unsigned uid, gid;
	char rest;

	if (sscanf(ids, "%u:%u%c", &uid, &gid, &rest) != 2 || uid == 0)
		return -EINVAL;
	/* Without this the kernel takes the capabilities with the user. */
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0)
		return -errno;
	if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 ||
	    setresuid(uid, uid, uid) != 0)
		return -errno;
	prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
	/* The kernel forgets with the user that this process dies with stepd. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		return -errno;
	if (getppid() != parent)
		raise(SIGKILL);
	return 0;
}
