#include "supervisor/session/child_end.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/cgroup.h"

#define CHILD_NAME(name, text, ...) text,
static const char *const names[] = {CHILD_END_LIST(CHILD_NAME)};
#undef CHILD_NAME
#define CHILD_TEXT(name, text, sentence, ...) sentence,
static const char *const texts[] = {CHILD_END_LIST(CHILD_TEXT)};
#undef CHILD_TEXT
#define CHILD_REMEDY(name, text, sentence, remedy) REMEDY_##remedy,
static const enum child_remedy remedies[] = {CHILD_END_LIST(CHILD_REMEDY)};
#undef CHILD_REMEDY

const char *child_class_name(enum child_class class)
{
	return names[class];
}

const char *child_class_text(enum child_class class)
{
	return texts[class];
}

enum child_remedy child_class_remedy(enum child_class class)
{
	return remedies[class];
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

int64_t
child_oom_kills(const char *root)
{
	char path[CGROUP_PATH + 32];
	int64_t value = -ENOENT;
	struct cgroup g;

	if (cgroup_find(&g, root, "memory") == 0) {
		snprintf(path, sizeof(path), "%s/%s", g.folder,
		    g.version == 2 ? "memory.events" : "memory.oom_control");
		value = cgroup_counter(path, "oom_kill");
	}
	if (value >= 0)
		return value;
	snprintf(path, sizeof(path), "%s/proc/vmstat", root);
	return cgroup_counter(path, "oom_kill");
}
