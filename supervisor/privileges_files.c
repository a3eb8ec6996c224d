#include "supervisor/privileges_files.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "supervisor/cgroup.h"
#include "supervisor/settings/config.h"

/* As <linux/landlock.h> has them; that of an older kernel lacks some. */
enum {
	WRITE_FILE = 1 << 1,
	REMOVE_DIR = 1 << 4,
	REMOVE_FILE = 1 << 5,
	MAKE_CHAR = 1 << 6,
	MAKE_DIR = 1 << 7,
	MAKE_FILE = 1 << 8,
	MAKE_SOCKET = 1 << 9,
	MAKE_FIFO = 1 << 10,
	MAKE_BLOCK = 1 << 11,
	MAKE_LINK = 1 << 12,
	REFER = 1 << 13,    /* renames to another folder; from version 2 on */
	TRUNCATE = 1 << 14, /* from version 3 on */
	BIND_TCP = 1,	    /* from version 4 on */
	SIGNALS = 2,	    /* from version 6 on */
	PATH_BENEATH = 1,
	ASK_VERSION = 1,
	/* Reading is not handled: models, certificates and what resolves names lie anywhere. */
	HANDLED = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_CHAR | MAKE_DIR | MAKE_FILE |
		  MAKE_SOCKET | MAKE_FIFO | MAKE_BLOCK | MAKE_LINK | REFER | TRUNCATE,
};

struct ruleset {
	uint64_t files, network, scopes;
};

struct path_beneath {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed));

/* What is not there needs no rule. */
static int
allow(int rules, const char *path, uint64_t rights)
{
	struct path_beneath rule = {rights, open(path, O_PATH | O_CLOEXEC)};
	int error = 0;

	if (rule.fd < 0)
		return 0;
	if (syscall(SYS_landlock_add_rule, rules, PATH_BENEATH, &rule, 0) != 0)
		error = -errno;
	close(rule.fd);
	return error;
}

/* The status socket may be put elsewhere: its folder, for that one kind of file. */
static int
allow_status_socket(int rules, const char *path)
{
	char folder[PATH_MAX], *slash;

	if (path == NULL || strcmp(path, "off") == 0 ||
	    snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder))
		return 0;
	slash = strrchr(folder, '/');
	if (slash == NULL)
		return allow(rules, ".", MAKE_SOCKET | REMOVE_FILE);
	slash[slash == folder] = '\0';
	return allow(rules, folder, MAKE_SOCKET | REMOVE_FILE);
}

/* The driver of a GPU is spoken to by its devices. And its threads have names that are written to
   files of /proc (worker/driver_rules.c holds a worker to its own): not for the superuser, who
   could write the kernel's settings there. */
static int
allow_driver(int rules)
{
	glob_t found = {0};
	int error = 0;

	glob("/dev/nvidia*", 0, NULL, &found);
	glob("/dev/nvidia-caps/*", GLOB_APPEND, NULL, &found);
	for (size_t i = 0; error == 0 && i < found.gl_pathc; i++)
		error = allow(rules, found.gl_pathv[i], WRITE_FILE);
	if (error == 0 && found.gl_pathc > 0 && geteuid() != 0)
		error = allow(rules, "/proc", WRITE_FILE);
	globfree(&found);
	return error;
}

/* Permissions kept, and why. */
static int
allow_all(int rules, uint64_t handled, const struct config *c)
{
	uint64_t write = handled & (WRITE_FILE | TRUNCATE);
	/* Everything that stepd keeps. */
	int error = allow(rules, c->state_dir,
	    write | (handled &
			(REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_FILE | MAKE_SOCKET | REFER)));

	if (error == 0)
		error = allow_status_socket(rules, c->status_socket);
	/* The groups of workers are made there and removed; the files they have the kernel makes.
	 */
	if (error == 0 && cgroup_claimed() != NULL)
		error = allow(rules, cgroup_claimed(), WRITE_FILE | MAKE_DIR | REMOVE_DIR);
	/* A worker that is a script throws words away. */
	if (error == 0)
		error = allow(rules, "/dev/null", write);
	if (error == 0)
		error = allow_driver(rules);
#ifdef __clang__
	/* clang's OpenMP, in the worker, makes sure with a file there that it is alone. */
	if (error == 0)
		error = allow(rules, "/dev/shm", write | MAKE_FILE | REMOVE_FILE);
#endif
	return error;
}

int
privileges_files(const struct config *c)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
	struct ruleset set = {0};
	int rules, error;

	if (version < 2)
		return version < 0 ? -errno : -ENOSYS;
	set.files = version >= 3 ? HANDLED : HANDLED & ~TRUNCATE;
	set.network = version >= 4 ? BIND_TCP : 0;
	set.scopes = version >= 6 ? SIGNALS : 0;
	rules = (int)syscall(SYS_landlock_create_ruleset, &set, sizeof(set), 0);
	if (rules < 0)
		return -errno;
	error = allow_all(rules, set.files, c);
	if (error == 0 && syscall(SYS_landlock_restrict_self, rules, 0) != 0)
		error = -errno;
	close(rules);
	return error;
}
