#include "supervisor/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 4096 };

/* Is the name among those of a list? */
static bool
is_listed(const char *list, const char *separators, const char *name)
{
	size_t want = strlen(name);

	for (const char *at = list; *at != '\0';) {
		size_t len = strcspn(at, separators);

		if (len == want && strncmp(at, name, len) == 0)
			return true;
		at += len;
		at += strspn(at, separators);
	}
	return false;
}

/* The group's name from /proc/self/cgroup: 1 or 2, the version, or -ENOENT. A controller is in the
   hierarchy of version 2 only where none of version 1 has it. */
static int
read_name(char out[LINE], const char *root, const char *controller)
{
	char path[CGROUP_PATH], line[LINE];
	int version = -ENOENT;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	file = fopen(path, "re");
	while (file != NULL && version != 1 && fgets(line, sizeof(line), file) != NULL) {
		char *names = strchr(line, ':'), *group;

		line[strcspn(line, "\n")] = '\0';
		group = names == NULL ? NULL : strchr(names + 1, ':');
		if (group == NULL || group[1] != '/')
			continue;
		*group++ = '\0';
		names++;
		if (*names != '\0' && !is_listed(names, ",", controller))
			continue;
		version = *names == '\0' ? 2 : 1;
		snprintf(out, LINE, "%s", group);
	}
	if (file != NULL)
		fclose(file);
	return version;
}

/* Blanks and the like stand as \040 in mountinfo. */
static void
unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from != '\0'; from++) {
		if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
			*to++ =
			    (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
			from += 3;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}

/* What is left of `name` below `top`, "" for the same; NULL: it is not below. */
static const char *
below(const char *name, const char *top)
{
	size_t len = strcmp(top, "/") == 0 ? 0 : strlen(top);

	if (strncmp(name, top, len) != 0 || (name[len] != '/' && name[len] != '\0'))
		return NULL;
	return strcmp(name + len, "/") == 0 ? "" : name + len;
}

/* One line of mountinfo: id parent device root place options [more] - type source options */
static bool
take_mount(
    struct cgroup *out, char *line, const char *root, const char *controller, const char *name)
{
	char *tail = strstr(line, " - "), *fields[5], *type, *options, *rest = line;
	const char *inner;
	int len;

	if (tail == NULL)
		return false;
	*tail = '\0';
	tail += 3;
	for (int i = 0; i < 5; i++)
		fields[i] = strsep(&rest, " ");
	type = strsep(&tail, " ");
	strsep(&tail, " ");
	options = tail;
	if (fields[4] == NULL || options == NULL)
		return false;
	options[strcspn(options, "\n")] = '\0';
	if (strcmp(type, out->version == 2 ? "cgroup2" : "cgroup") != 0 ||
	    (out->version == 1 && !is_listed(options, ",", controller)))
		return false;
	unescape(fields[3]);
	unescape(fields[4]);
	inner = below(name, fields[3]);
	if (inner == NULL)
		return false;
	out->top = strlen(root) + strlen(fields[4]);
	len = snprintf(out->folder, sizeof(out->folder), "%s%s%s", root, fields[4], inner);
	return len < (int)sizeof(out->folder);
}

static bool
find_mount(struct cgroup *out, const char *root, const char *controller, const char *name)
{
	char path[CGROUP_PATH], line[2 * LINE];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
	file = fopen(path, "re");
	while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
		found = take_mount(out, line, root, controller, name);
	if (file != NULL)
		fclose(file);
	return found;
}

/* Where mounts usually are; within a container the group is often the root of what is mounted. */
static int
guess_mount(struct cgroup *out, const char *root, const char *controller, const char *name)
{
	int len = snprintf(out->folder, sizeof(out->folder), "%s/sys/fs/cgroup%s%s", root,
	    out->version == 1 ? "/" : "", out->version == 1 ? controller : "");

	out->top = (size_t)len;
	len += snprintf(out->folder + len, sizeof(out->folder) - (size_t)len, "%s", name);
	if (len >= (int)sizeof(out->folder))
		return -ENOENT;
	if (access(out->folder, F_OK) != 0)
		out->folder[out->top] = '\0';
	return access(out->folder, F_OK) == 0 ? 0 : -ENOENT;
}

int
cgroup_find(struct cgroup *out, const char *root, const char *controller)
{
	const char *claimed = root[0] == '\0' ? cgroup_claimed() : NULL;
	char name[LINE];

	out->version = read_name(name, root, controller);
	if (out->version < 0)
		return -ENOENT;
	if (!find_mount(out, root, controller, name) &&
	    guess_mount(out, root, controller, name) != 0)
		return -ENOENT;
	if (claimed != NULL && out->version == 2)
		snprintf(out->folder, sizeof(out->folder), "%s", claimed);
	return 0;
}

static bool
read_line(char *out, size_t size, const char *folder, const char *name)
{
	char path[2 * CGROUP_PATH];
	bool got = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	got = fgets(out, (int)size, file) != NULL;
	fclose(file);
	return got;
}

/* A number or "max", and where it ends. */
static bool
take_number(const char *text, uint64_t *out, char **end)
{
	if (strncmp(text, "max", 3) == 0) {
		*out = UINT64_MAX;
		*end = (char *)text + 3;
		return true;
	}
	*out = strtoull(text, end, 10);
	return *end != text;
}

bool
cgroup_number(const char *folder, const char *file, uint64_t *out)
{
	char text[64], *end;

	return read_line(text, sizeof(text), folder, file) && take_number(text, out, &end);
}

int64_t
cgroup_counter(const char *path, const char *key)
{
	FILE *file = fopen(path, "re");
	char line[256];
	size_t len = strlen(key);
	int64_t value = -ENOENT;

	if (file == NULL)
		return -ENOENT;
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, key, len) == 0 && line[len] == ' ')
			value = strtoll(line + len, NULL, 10);
	}
	fclose(file);
	return value;
}

bool
cgroup_names(const char *folder, const char *file, const char *name)
{
	char line[1024];

	return read_line(line, sizeof(line), folder, file) && is_listed(line, " \n", name);
}

int
cgroup_write(const char *folder, const char *file, const char *text)
{
	char path[2 * CGROUP_PATH];
	int fd, error;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	error = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return error;
}

/* Processors of one group's quota: microseconds of a period, rounded up; 0 = no quota. */
static unsigned
quota_of(const char *folder, int version)
{
	uint64_t quota = UINT64_MAX, period = 0;
	char text[64], *end;

	if (version == 2) {
		if (read_line(text, sizeof(text), folder, "cpu.max") &&
		    take_number(text, &quota, &end))
			period = strtoull(end, NULL, 10);
	} else if (cgroup_number(folder, "cpu.cfs_quota_us", &quota)) {
		cgroup_number(folder, "cpu.cfs_period_us", &period);
	}
	/* version 1 writes no quota as -1 */
	if (quota == 0 || period == 0 || quota > UINT32_MAX)
		return 0;
	return (unsigned)((quota + period - 1) / period);
}

unsigned
cgroup_processors(const char *root)
{
	struct cgroup g;
	unsigned least = 0;

	if (cgroup_find(&g, root, "cpu") != 0)
		return 0;
	for (;;) {
		unsigned here = quota_of(g.folder, g.version);
		char *slash;

		if (here > 0 && (least == 0 || here < least))
			least = here;
		slash = strrchr(g.folder, '/');
		if (strlen(g.folder) <= g.top || slash == NULL)
			return least;
		*slash = '\0';
	}
}
