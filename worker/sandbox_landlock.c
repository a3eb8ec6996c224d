#include "worker/sandbox_landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/sandbox_calls.h"

/* As <linux/landlock.h> has them; that of an older kernel lacks some. */
enum {
	READ_FILE = 1 << 2,
	READ_DIR = 1 << 3,
	TCP = 3,    /* bind and connect; from version 4 on */
	SCOPES = 3, /* abstract sockets and signals; from version 6 on */
	PATH_BENEATH = 1,
	ASK_VERSION = 1,
};

struct ruleset {
	uint64_t files, network, scopes;
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

/* Lets the file or folder be read. What is not there, or no file, needs no rule. */
static int
allow(int rules, int at, const char *path, bool folders)
{
	struct path_beneath rule = {.fd = openat(at, path, O_PATH | O_CLOEXEC)};
	struct stat st;
	int error = 0;

	if (rule.fd < 0)
		return 0;
	if (fstat(rule.fd, &st) == 0) {
		if (S_ISREG(st.st_mode))
			rule.allowed = READ_FILE;
		else if (S_ISDIR(st.st_mode) && folders)
			rule.allowed = READ_FILE | READ_DIR;
	}
	if (rule.allowed != 0 && syscall(SYS_landlock_add_rule, rules, PATH_BENEATH, &rule, 0) != 0)
		error = -errno;
	close(rule.fd);
	return error;
}

/* A folder of the Hugging Face cache has nothing but links to blobs that lie elsewhere. */
static int
allow_links(int rules, const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *entry;
	int error = 0;

	if (d == NULL)
		return 0;
	while (error == 0 && (entry = readdir(d)) != NULL) {
		if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN)
			error = allow(rules, dirfd(d), entry->d_name, false);
	}
	closedir(d);
	return error;
}

/* Permissions kept, and why. */
static int
allow_all(int rules, const char *model)
{
	/* The model: its files are opened by their names. */
	int error = allow(rules, AT_FDCWD, model, true);

	if (error == 0)
		error = allow_links(rules, model);
	/* glibc and OpenMP count the processors there. */
	if (error == 0)
		error = allow(rules, AT_FDCWD, "/sys/devices/system/cpu", true);
	/* Reports of AddressSanitizer name lines: it reads its maps and the program. */
	if (error == 0 && SANDBOX_SANITIZED)
		error = allow(rules, AT_FDCWD, "/", true);
	return error;
}

int
sandbox_landlock(const char *path)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
	struct ruleset set = {0};
	int rules, error;

	if (version < 1)
		return version < 0 ? -errno : -ENOSYS;
	set.files = file_rights(version);
	set.network = version >= 4 ? TCP : 0;
	set.scopes = version >= 6 ? SCOPES : 0;
	rules = (int)syscall(SYS_landlock_create_ruleset, &set, sizeof(set), 0);
	if (rules < 0)
		return -errno;
	error = allow_all(rules, path);
	if (error == 0 && syscall(SYS_landlock_restrict_self, rules, 0) != 0)
		error = -errno;
	close(rules);
	return error != 0 ? error : (int)version;
}
