#include "supervisor/status/status_facts.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "supervisor/cgroup.h"
#include "supervisor/session/child_end.h"

#define DISK_NAME(name, text, folder) text,
static const char *const disk_names[] = {STATUS_DISK_LIST(DISK_NAME)};
#undef DISK_NAME
#define DISK_FOLDER(name, text, folder) folder,
static const char *const disk_folders[] = {STATUS_DISK_LIST(DISK_FOLDER)};
#undef DISK_FOLDER

const char *
status_disk_name(enum status_disk disk)
{
	return disk_names[disk];
}

static struct fact_disk
read_disk(const char *state_dir, const char *folder)
{
	char path[PATH_MAX + 16];
	struct statvfs st;
	struct stat file;

	snprintf(path, sizeof(path), "%s%s", state_dir, folder);
	/* The spool is made when it is first needed: until then it is where it will be. */
	if (stat(path, &file) != 0 && errno == ENOENT)
		path[strlen(state_dir)] = '\0';
	if (stat(path, &file) != 0 || statvfs(path, &st) != 0)
		return (struct fact_disk){0};
	return (struct fact_disk){.known = true,
	    .device = file.st_dev,
	    .bytes = st.f_blocks * (uint64_t)st.f_frsize,
	    .bytes_free = st.f_bavail * (uint64_t)st.f_frsize,
	    .inodes = st.f_files,
	    .inodes_free = st.f_favail};
}

/* A line "Key:   1234 kB" of a file in /proc. */
static bool
take_kib(const char *line, const char *key, uint64_t *out)
{
	size_t len = strlen(key);

	if (strncmp(line, key, len) != 0)
		return false;
	*out = strtoull(line + len, NULL, 10) * 1024;
	return true;
}

/* pid: "self", or a number. */
static struct fact_memory
read_memory(const char *root, const char *pid)
{
	struct fact_memory m = {0};
	char path[PATH_MAX], line[256];
	bool rss = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/%s/status", root, pid);
	file = fopen(path, "re");
	if (file == NULL)
		return m;
	while (fgets(line, sizeof(line), file) != NULL) {
		take_kib(line, "VmHWM:", &m.peak);
		rss = take_kib(line, "VmRSS:", &m.rss) || rss;
	}
	fclose(file);
	m.known = rss; /* a process that has ended and was not yet waited for has none */
	return m;
}

/* No limit is "max", or nearly 2^63 in version 1. */
static struct fact_cgroup
read_cgroup(const char *root)
{
	enum { NO_LIMIT_BITS = 62 };
	struct fact_cgroup c = {0};
	struct cgroup g;

	if (cgroup_find(&g, root, "memory") != 0)
		return c;
	c.known = cgroup_number(
	    g.folder, g.version == 2 ? "memory.current" : "memory.usage_in_bytes", &c.current);
	if (!cgroup_number(
		g.folder, g.version == 2 ? "memory.max" : "memory.limit_in_bytes", &c.limit) ||
	    c.limit >> NO_LIMIT_BITS != 0)
		c.limit = 0;
	return c;
}

static int64_t
count_files(const char *root)
{
	char path[PATH_MAX];
	int64_t count = -1; /* the folder itself is open while it is read */
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "%s/proc/self/fd", root);
	folder = opendir(path);
	if (folder == NULL)
		return -1;
	while ((entry = readdir(folder)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

void
status_facts_read(struct status_facts *f, const char *root)
{
	int64_t kills = child_oom_kills(root);

	for (int i = 0; i < STATUS_DISKS; i++)
		f->disks[i] = read_disk(f->state_dir, disk_folders[i]);
	f->self = read_memory(root, "self");
	for (size_t i = 0; i < f->worker_count; i++) {
		char pid[16];

		snprintf(pid, sizeof(pid), "%d", (int)f->workers[i]);
		f->worker_memory[i] = read_memory(root, pid);
	}
	f->cgroup = read_cgroup(root);
	f->oom_kills = kills < 0 ? -1 : kills;
	f->open_files = count_files(root);
	boot_id_read(f->boot_id, root);
}

const struct fact_memory *
status_facts_worker(const struct status_facts *f, pid_t pid)
{
	for (size_t i = 0; f != NULL && i < f->worker_count; i++) {
		if (f->workers[i] == pid)
			return f->worker_memory[i].known ? &f->worker_memory[i] : NULL;
	}
	return NULL;
}
