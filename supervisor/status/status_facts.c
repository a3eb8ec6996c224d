#include "supervisor/status/status_facts.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

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

/* A file with one number, or "max". */
static bool
read_number(const char *path, uint64_t *out)
{
	char text[64] = "";
	FILE *file = fopen(path, "re");
	char *end;

	if (file == NULL)
		return false;
	if (fgets(text, sizeof(text), file) == NULL)
		text[0] = '\0';
	fclose(file);
	if (strncmp(text, "max", 3) == 0) {
		*out = 0;
		return true;
	}
	*out = strtoull(text, &end, 10);
	return end != text;
}

static bool
read_group(struct fact_cgroup *out, const char *root, const char *folder, const char *current,
    const char *limit)
{
	enum { NO_LIMIT_BITS = 62 }; /* version 1 writes no limit as nearly 2^63 */
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s%s/%s", root, folder, current) >= (int)sizeof(path) ||
	    !read_number(path, &out->current))
		return false;
	if (snprintf(path, sizeof(path), "%s%s/%s", root, folder, limit) >= (int)sizeof(path) ||
	    !read_number(path, &out->limit) || out->limit >> NO_LIMIT_BITS != 0)
		out->limit = 0;
	return true;
}

/* Is `memory` among the names between commas? */
static bool
names_memory(const char *controllers)
{
	static const char name[] = "memory";

	for (const char *at = controllers;; at++) {
		size_t len = strcspn(at, ",");

		if (len == sizeof(name) - 1 && strncmp(at, name, len) == 0)
			return true;
		at += len;
		if (*at == '\0')
			return false;
	}
}

/* Version 2 has one hierarchy, whose line begins "0::"; version 1 has one of its own for memory. */
static struct fact_cgroup
read_cgroup(const char *root)
{
	char path[PATH_MAX], line[PATH_MAX], folder[2 * PATH_MAX];
	struct fact_cgroup c = {0};
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	file = fopen(path, "re");
	while (file != NULL && !c.known && fgets(line, sizeof(line), file) != NULL) {
		char *controllers = strchr(line, ':');
		char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');

		line[strcspn(line, "\n")] = '\0';
		if (group == NULL)
			continue;
		*group++ = '\0';
		controllers++;
		if (*controllers == '\0') {
			snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s", group);
			c.known = read_group(&c, root, folder, "memory.current", "memory.max");
		} else if (names_memory(controllers)) {
			/* Within a container the group is often mounted as the root. */
			snprintf(folder, sizeof(folder), "/sys/fs/cgroup/memory%s", group);
			c.known = read_group(&c, root, folder, "memory.usage_in_bytes",
				      "memory.limit_in_bytes") ||
				  read_group(&c, root, "/sys/fs/cgroup/memory",
				      "memory.usage_in_bytes", "memory.limit_in_bytes");
		}
	}
	if (file != NULL)
		fclose(file);
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

static void
read_boot_id(char out[40], const char *root)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/sys/kernel/random/boot_id", root);
	file = fopen(path, "re");
	if (file == NULL || fgets(out, 40, file) == NULL)
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	if (file != NULL)
		fclose(file);
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
	read_boot_id(f->boot_id, root);
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
