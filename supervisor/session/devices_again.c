#include "supervisor/session/devices_again.h"

#include <errno.h>
#include <event2/event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "supervisor/offload.h"
#include "supervisor/session/devices.h"
#include "supervisor/session/devices_find.h"
#include "supervisor/session/sessions.h"
#include "supervisor/session/sessions_load.h"
#include "supervisor/settings/config.h"

/* LONGEST: between two looks at one that failed; after CALM the next failure is the first. */
enum { PAUSE_SECONDS = 60, LONGEST_SECONDS = 300, CALM_SECONDS = 600 };

struct devices_again {
	struct stepd *stepd;
	bool looking, more; /* more: asked for while it was looking */
	double next;	    /* monotonic seconds: not before, unless it is asked for */
	struct event *later;
	unsigned failures; /* of late, */
	double failed_at;  /* the last of them then */
	atomic_bool stop;  /* the search under way, for good or to begin it again: */
	bool cut;
	/* of the thread */
	char held[SLOTS_MAX * 65];
	struct devices found;
};

static void
name_held(struct devices_again *a)
{
	const struct slots *slots = &a->stepd->sessions->slots;
	size_t len = 0;

	a->held[0] = '\0';
	for (size_t i = 0; i < slots->count; i++) {
		const struct slot *slot = &slots->slots[i];

		if (slot->kind == SLOT_GPU && slot->taken)
			len += (size_t)snprintf(a->held + len, sizeof(a->held) - len, "%s%s",
			    len > 0 ? "," : "", slot->device);
	}
}

/* Which slots were opened or closed. */
static void
tell_changes(const struct slots *before, const struct slots *now)
{
	for (size_t i = 0; i < now->count; i++) {
		const struct slot *slot = &now->slots[i];
		bool was_closed = i >= before->count || before->slots[i].closed;

		if (slot->closed && !was_closed)
			log_warning("slot %zu, %s: no new session there", i, slot->device);
		else if (!slot->closed && was_closed)
			log_info("slot %zu, %s: open", i, slot->device);
	}
}

/* A session that took one meanwhile may have left the probe no memory there; how it is, its worker
   says. */
static void
hold_taken(const struct slots *slots, const struct devices *found)
{
	for (size_t i = 0; i < slots->count; i++) {
		const struct slot *slot = &slots->slots[i];
		struct device *d = devices_by_uuid(found, slot->device);

		if (slot->taken && !slot->failed && d != NULL && !d->verified)
			d->held = true;
	}
}

static void
update(struct stepd *s, struct devices *found, int error)
{
	struct slots *slots = &s->sessions->slots, before = *slots;

	hold_taken(slots, found);
	devices_take(s, found, error);
	slots_update(slots, found, s->config->devices);
	tell_changes(&before, slots);
}

static void
on_later(evutil_socket_t fd, short what, void *arg)
{
	struct devices_again *a = arg;

	(void)fd;
	(void)what;
	devices_look_again(a->stepd, DEVICES_ASKED);
}

/* 0, 1, 2, 4 seconds, and so on. */
static void
look_later(struct devices_again *a)
{
	double now = monotonic_seconds();
	struct timeval tv = {0};

	if (now - a->failed_at > CALM_SECONDS)
		a->failures = 0;
	a->failed_at = now;
	if (a->failures > 0)
		tv.tv_sec = a->failures > 9 ? LONGEST_SECONDS : 1 << (a->failures - 1);
	a->failures++;
	if (evtimer_pending(a->later, NULL))
		return;
	if (evtimer_add(a->later, &tv) != 0)
		log_error("no memory to look for a GPU that failed: SIGHUP has it looked for");
}

static int
work(void *arg)
{
	struct devices_again *a = arg;

	return devices_find(
	    a->stepd->config, a->held[0] != '\0' ? a->held : NULL, &a->stop, &a->found);
}

static void
done(void *arg, int error)
{
	struct devices_again *a = arg;
	struct stepd *s = a->stepd;
	bool all;

	a->looking = false;
	a->next = monotonic_seconds() + PAUSE_SECONDS;
	if (s->stopping || s->sessions->ending)
		return;
	if (a->cut) {
		a->cut = a->more = false;
		atomic_store(&a->stop, false);
		devices_look_again(s, DEVICES_ASKED);
		return;
	}
	update(s, &a->found, error);
	all = sessions_come_back(s);
	if (a->more) {
		a->more = false;
		devices_look_again(s, DEVICES_ASKED);
	} else if (!all) {
		look_later(a);
	}
}

void
devices_look_again(struct stepd *s, enum devices_reason reason)
{
	struct devices_again *a = s->devices_again;

	if (a == NULL || s->sessions == NULL || s->stopping)
		return;
	if (reason == DEVICES_FAILED) {
		look_later(a);
		return;
	}
	if (a->looking) {
		a->more |= reason == DEVICES_ASKED;
		return;
	}
	if (reason == DEVICES_LACKED && monotonic_seconds() < a->next)
		return;
	a->looking = true;
	name_held(a);
	offload_start(s->base, work, done, a);
}

void
devices_taken(struct stepd *s, const struct slot *slot)
{
	struct devices_again *a = s->devices_again;

	if (a == NULL || !a->looking || slot->kind != SLOT_GPU)
		return;
	a->cut = true;
	atomic_store(&a->stop, true);
}

int
devices_again_start(struct stepd *s)
{
	struct devices_again *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return -ENOMEM;
	a->stepd = s;
	a->later = evtimer_new(s->base, on_later, a);
	s->devices_again = a;
	return a->later != NULL ? 0 : -ENOMEM;
}

void
devices_again_stop(struct stepd *s)
{
	if (s->devices_again != NULL)
		atomic_store(&s->devices_again->stop, true);
}

void
devices_again_free(struct stepd *s)
{
	if (s->devices_again != NULL && s->devices_again->later != NULL)
		event_free(s->devices_again->later);
	free(s->devices_again);
	s->devices_again = NULL;
}
