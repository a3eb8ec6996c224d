#include "supervisor/session/child_group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/cgroup.h"
#include "supervisor/session/child_end.h"

enum {
	FOLDER = CGROUP_PATH + 32,
	/* Threads: STEPD_THREADS at most, and those of libraries. */
	PIDS_MAX = 2048,
	LEFT_MAX = 64,
};

#define BOUND_NAME(name, text) text,
static const char *const bounds[] = {CHILD_BOUND_LIST(BOUND_NAME)};
#undef BOUND_NAME

static unsigned last;
/* Groups that did not go at once: what was killed in them had not yet gone. */
static unsigned left[LEFT_MAX];

const char *
child_bound_name(enum child_bound bound)
{
	return bounds[bound];
}

static const char *
folder_of(char out[FOLDER], unsigned number)
{
	snprintf(out, FOLDER, "%s/worker-%u", cgroup_claimed(), number);
	return out;
}

/* Whether it is gone. */
static bool
remove_group(unsigned number)
{
	char folder[FOLDER];

	return rmdir(folder_of(folder, number)) == 0 || errno == ENOENT;
}

static void
remove_left(void)
{
	for (size_t i = 0; i < LEFT_MAX; i++) {
		if (left[i] != 0 && remove_group(left[i]))
			left[i] = 0;
	}
}

/* The limit has to be there; the rest not every kernel has. */
static int
set_limits(const char *folder, uint64_t memory)
{
	char text[32];
	int error = 0;

	if (memory > 0) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)memory);
		error = cgroup_write(folder, "memory.max", text);
		/* Beyond its limit it ends, rather than to make the machine slow. */
		cgroup_write(folder, "memory.swap.max", "0");
	}
	cgroup_write(folder, "memory.oom.group", "1");
	snprintf(text, sizeof(text), "%d", PIDS_MAX);
	cgroup_write(folder, "pids.max", text);
	return error;
}

static int
make(struct child_group *g)
{
	char folder[FOLDER], path[FOLDER + 16];
	int error;

	remove_left();
	if (mkdir(folder_of(folder, ++last), 0755) != 0)
		return -errno;
	g->number = last;
	error = set_limits(folder, g->memory);
	if (error == 0) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
		g->entry = open(path, O_WRONLY | O_CLOEXEC);
		error = g->entry < 0 ? -errno : 0;
	}
	return error;
}

void
child_group_new(struct child_group *out, uint64_t memory)
{
	int error;

	*out = (struct child_group){.entry = -1, .memory = memory};
	if (cgroup_claimed() != NULL) {
		error = make(out);
		if (error == 0)
			return;
		log_warning("a worker has no control group: %s", strerror(-error));
		child_group_free(out);
	}
	out->memory = out->data = memory;
	out->kills = child_oom_kills("");
}

void
child_group_entered(struct child_group *g)
{
	if (g->entry >= 0)
		close(g->entry);
	g->entry = -1;
}

bool
child_group_oom_killed(const struct child_group *g)
{
	char folder[FOLDER], path[FOLDER + 16];

	if (g->number == 0)
		return g->kills >= 0 && child_oom_kills("") > g->kills;
	snprintf(path, sizeof(path), "%s/memory.events", folder_of(folder, g->number));
	return cgroup_counter(path, "oom_kill") > 0;
}

struct child_memory
child_group_memory(const struct child_group *g)
{
	struct child_memory m = {.limit = g->memory};
	char folder[FOLDER];

	if (g->number != 0) {
		m.bound = CHILD_BOUND_CGROUP;
		if (!cgroup_number(folder_of(folder, g->number), "memory.peak", &m.peak))
			m.peak = 0;
	} else if (g->data > 0) {
		m.bound = CHILD_BOUND_RLIMIT;
	}
	return m;
}

void
child_group_free(struct child_group *g)
{
	char folder[FOLDER];

	child_group_entered(g);
	if (g->number != 0 && !remove_group(g->number)) {
		cgroup_write(folder_of(folder, g->number), "cgroup.kill", "1");
		for (size_t i = 0; i < LEFT_MAX && g->number != 0; i++) {
			if (left[i] == 0) {
				left[i] = g->number;
				g->number = 0;
			}
		}
	}
	*g = (struct child_group){.entry = -1};
}
