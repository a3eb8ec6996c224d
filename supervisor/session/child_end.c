#include "supervisor/session/child_end.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_LIMIT = 4096 };

#define CHILD_NAME(name, text, ...) text,
static const char *const names[] = {CHILD_END_LIST(CHILD_NAME)};
#undef CHILD_NAME
#define CHILD_TEXT(name, text, sentence) sentence,
static const char *const texts[] = {CHILD_END_LIST(CHILD_TEXT)};
#undef CHILD_TEXT

const char *child_class_name(enum child_class class)
{
	return names[class];
}

const char *child_class_text(enum child_class class)
{
	return texts[class];
}

/* Signals that a program earns itself, not those that somebody sends. */
static bool
is_crash(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
	       signal == SIGABRT || signal == SIGTRAP;
}

enum child_class
child_classify(const struct child_facts *f)
{
	bool exited = f->code == CLD_EXITED;

	if (f->bad_frame)
		return CHILD_BAD_FRAME;
	if (f->hung)
		return CHILD_HANG;
	if (!exited && f->status == SIGSYS)
		return CHILD_SANDBOX;
	if (!exited && f->status == SIGKILL && f->oom_killed)
		return CHILD_HOST_OOM;
	for (enum child_class c = CHILD_DEVICE_OOM; c <= CHILD_SANDBOX; c++) {
		if (strcmp(f->last_class, names[c]) == 0)
			return c;
	}
	if (f->asked_to_end && (exited ? f->status == 0 : !is_crash(f->status)))
		return CHILD_CLEAN;
	if (!exited)
		return is_crash(f->status) ? CHILD_SIGNAL : CHILD_KILLED;
	return f->was_ready ? CHILD_EXITED : CHILD_START_FAILED;
}

/* The number after `key ` at the start of a line of a small file, or -ENOENT. */
static int64_t
read_counter(const char *path, const char *key)
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

/* Does the comma-separated list of controllers in a line of /proc/self/cgroup name memory? */
static bool
names_memory(const char *controllers)
{
	const char *at = strstr(controllers, "memory");

	return at != NULL && (at == controllers || at[-1] == ',') &&
	       (at[6] == '\0' || at[6] == ',');
}

int64_t
child_oom_kills(const char *root)
{
	char path[PATH_LIMIT], line[PATH_LIMIT];
	int64_t value = -ENOENT;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	file = fopen(path, "re");
	while (file != NULL && value < 0 && fgets(line, sizeof(line), file) != NULL) {
		char *controllers = strchr(line, ':'), *group;

		line[strcspn(line, "\n")] = '\0';
		group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
		if (group == NULL)
			continue;
		*group++ = '\0';
		if (controllers[1] == '\0') {
			if (snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s/memory.events", root,
				group) < (int)sizeof(path))
				value = read_counter(path, "oom_kill");
		} else if (names_memory(controllers + 1)) {
			if (snprintf(path, sizeof(path),
				"%s/sys/fs/cgroup/memory%s/memory.oom_control", root,
				group) < (int)sizeof(path))
				value = read_counter(path, "oom_kill");
		}
	}
	if (file != NULL)
		fclose(file);
	if (value >= 0)
		return value;
	snprintf(path, sizeof(path), "%s/proc/vmstat", root);
	return read_counter(path, "oom_kill");
}
