#include "worker/sandbox_landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/sandbox_calls.h"

/* As <linux/landlock.h> has them; that of an older kernel lacks some. */
enum {
	WRITE_FILE = 1 << 1,
	READ_FILE = 1 << 2,
	READ_DIR = 1 << 3,
	IOCTL_DEV = 1 << 15, /* from version 5 on; before it, whoever opens may command */
	TCP = 3,	     /* bind and connect; from version 4 on */
	SCOPES = 3,	     /* abstract sockets and signals; from version 6 on */
	PATH_BENEATH = 1,
	ASK_VERSION = 1,
};

struct ruleset {
	uint64_t files, network, scopes;
};

/* A set of rules in the making. */
struct lock {
	int rules;
	uint64_t handled;
};

struct path_beneath {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed));

/* Every right that each version knows: 13, then REFER, TRUNCATE, and IOCTL_DEV with the fifth. */
static uint64_t
file_rights(long version)
{
	unsigned rights = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;

	return (1ull << rights) - 1;
}

/* What a rule gives to what is there; 0: it is of another kind. */
static uint64_t
given_rights(enum landlock_right right, mode_t mode)
{
	switch (right) {
	case LANDLOCK_READ:
		if (S_ISDIR(mode))
			return READ_FILE | READ_DIR;
		return S_ISREG(mode) ? READ_FILE : 0;
	case LANDLOCK_SOURCE:
		return S_ISCHR(mode) ? READ_FILE : 0;
	case LANDLOCK_DEVICE:
		return S_ISCHR(mode) ? READ_FILE | WRITE_FILE | IOCTL_DEV : 0;
	case LANDLOCK_WRITE:
		return S_ISDIR(mode) ? READ_FILE | WRITE_FILE : 0;
	}
	return 0;
}

/* What is not there needs no rule. */
static int
allow(const struct lock *lock, int at, const char *path, enum landlock_right right, bool folders)
{
	struct path_beneath rule = {.fd = openat(at, path, O_PATH | O_CLOEXEC)};
	struct stat st;
	int error = 0;

	if (rule.fd < 0)
		return 0;
	if (fstat(rule.fd, &st) == 0 && (folders || !S_ISDIR(st.st_mode)))
		rule.allowed = given_rights(right, st.st_mode) & lock->handled;
	if (rule.allowed != 0 &&
	    syscall(SYS_landlock_add_rule, lock->rules, PATH_BENEATH, &rule, 0) != 0)
		error = -errno;
	/* A rule is for an inode; that of a folder of /proc is another one once nobody holds it. */
	if (error != 0 || right != LANDLOCK_WRITE)
		close(rule.fd);
	return error;
}

/* A folder of the Hugging Face cache has nothing but links to blobs that lie elsewhere. */
static int
allow_links(const struct lock *lock, const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *entry;
	int error = 0;

	if (d == NULL)
		return 0;
	while (error == 0 && (entry = readdir(d)) != NULL) {
		if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN)
			error = allow(lock, dirfd(d), entry->d_name, LANDLOCK_READ, false);
	}
	closedir(d);
	return error;
}

/* Permissions kept, and why. */
static int
allow_all(const struct lock *lock, const char *model)
{
	int error = 0;

	/* The model: its files are opened by their names. */
	if (model != NULL)
		error = allow(lock, AT_FDCWD, model, LANDLOCK_READ, true);
	if (error == 0 && model != NULL)
		error = allow_links(lock, model);
	/* glibc and OpenMP count the processors there. */
	if (error == 0)
		error = allow(lock, AT_FDCWD, "/sys/devices/system/cpu", LANDLOCK_READ, true);
	/* Reports of AddressSanitizer name lines: it reads its maps and the program. */
	if (error == 0 && SANDBOX_SANITIZED)
		error = allow(lock, AT_FDCWD, "/", LANDLOCK_READ, true);
	return error;
}

int
sandbox_landlock(const char *path, const struct landlock_rule *rules, size_t count)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
	struct ruleset set = {0};
	struct lock lock;
	int error;

	if (version < 1)
		return version < 0 ? -errno : -ENOSYS;
	set.files = file_rights(version);
	set.network = version >= 4 ? TCP : 0;
	set.scopes = version >= 6 ? SCOPES : 0;
	lock.handled = set.files;
	lock.rules = (int)syscall(SYS_landlock_create_ruleset, &set, sizeof(set), 0);
	if (lock.rules < 0)
		return -errno;
	error = allow_all(&lock, path);
	for (size_t i = 0; error == 0 && i < count; i++)
		error = allow(&lock, AT_FDCWD, rules[i].path, rules[i].right, true);
	if (error == 0 && syscall(SYS_landlock_restrict_self, lock.rules, 0) != 0)
		error = -errno;
	close(lock.rules);
	return error != 0 ? error : (int)version;
}
