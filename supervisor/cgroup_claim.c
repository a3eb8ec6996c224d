/* Taking over the group that was delegated to this service. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "supervisor/cgroup.h"

static char claimed[CGROUP_PATH]; /* a process is in one group */

const char *
cgroup_claimed(void)
{
	return claimed[0] != '\0' ? claimed : NULL;
}

/* systemd marks what it leaves to a service. That a group can be written to says nothing: root can
   write to all of them, and what others put into one is not to be moved. */
static bool
is_delegated(const char *folder)
{
	static const char *const marks[] = {"user.delegate", "trusted.delegate"};

	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		char value = '0';

		if (getxattr(folder, marks[i], &value, 1) == 1 && value == '1')
			return true;
	}
	return false;
}

/* Groups of workers of an earlier stepd; one that holds processes stays. */
static void
remove_old(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *entry;

	while (d != NULL && (entry = readdir(d)) != NULL) {
		if (strncmp(entry->d_name, "worker-", 7) == 0)
			unlinkat(dirfd(d), entry->d_name, AT_REMOVEDIR);
	}
	if (d != NULL)
		closedir(d);
}

int
cgroup_claim(void)
{
	char own[CGROUP_PATH + 16];
	struct cgroup g;
	int error;

	if (claimed[0] != '\0')
		return 0;
	if (cgroup_find(&g, "", "memory") != 0 || g.version != 2)
		return -ENOENT;
	if (!is_delegated(g.folder))
		return -EPERM;
	if (!cgroup_names(g.folder, "cgroup.controllers", "memory"))
		return -ENOTSUP;
	snprintf(own, sizeof(own), "%s/supervisor", g.folder);
	if (mkdir(own, 0755) != 0 && errno != EEXIST)
		return -errno;
	error = cgroup_write(own, "cgroup.procs", "0");
	if (error == 0)
		error = cgroup_write(g.folder, "cgroup.subtree_control", "+memory");
	if (error != 0) { /* -EBUSY: somebody else is in it */
		cgroup_write(g.folder, "cgroup.procs", "0");
		rmdir(own);
		return error;
	}
	cgroup_write(g.folder, "cgroup.subtree_control", "+pids");
	remove_old(g.folder);
	snprintf(claimed, sizeof(claimed), "%s", g.folder);
	return 0;
}
