#include "supervisor/session/devices_find.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/settings/config.h"

/* Takes what is new of the others. */
static void
merge(struct devices *all, const struct devices *others)
{
	for (size_t i = 0; i < others->count && all->count < DEVICES_MAX; i++) {
		if (devices_by_uuid(all, others->at[i].uuid) == NULL)
			all->at[all->count++] = others->at[i];
	}
}

/* The parts that are named, a probe each. One whose probe fails is as one that is not there. */
static void
look_for_parts(struct probe_options *o, const char *names, struct devices *all)
{
	for (const char *at = names; *at != '\0'; at += *at == ',') {
		size_t len = strcspn(at, ",");
		char uuid[sizeof(all->at[0].uuid)];
		struct devices one;

		if (strncmp(at, "MIG-", 4) == 0 && len < sizeof(uuid)) {
			snprintf(uuid, sizeof(uuid), "%.*s", (int)len, at);
			o->visible = uuid;
			if (devices_by_uuid(all, uuid) == NULL && probe_run(o, &one) == 0 &&
			    one.count == 1 && strcmp(one.at[0].uuid, uuid) == 0)
				merge(all, &one);
			o->visible = NULL;
		}
		at += len;
	}
}

static int
look(struct probe_options *o, const struct config *c, struct devices *out)
{
	int error = probe_run(o, out);

	if (error == 0)
		look_for_parts(o, c->devices, out);
	return error;
}

/* Something that there seems to be does not compute. */
static bool
is_lacking(int error, const struct devices *found)
{
	bool lacking = error == -ECHILD || (error == 0 && found->count == 0 && found->driver);

	for (size_t i = 0; error == 0 && i < found->count; i++)
		lacking |= !found->at[i].verified && !found->at[i].held;
	return lacking;
}

/* What computes outside of the sandbox alone is told so: the driver of this machine does something
   that the sandbox does not know. */
static void
tell_sandbox(struct devices *inside, const struct devices *outside)
{
	for (size_t i = 0; i < outside->count; i++) {
		const struct device *o = &outside->at[i];
		struct device *d = devices_by_uuid(inside, o->uuid);
		char why[128];

		if (!o->verified || (d != NULL && (d->verified || d->held)))
			continue;
		if (d == NULL && inside->count == DEVICES_MAX)
			return;
		snprintf(why, sizeof(why), "%.127s", d != NULL ? d->error : inside->error);
		if (d == NULL)
			d = &inside->at[inside->count++];
		*d = *o;
		d->verified = false;
		snprintf(d->error, sizeof(d->error),
		    "it computes, but not in the sandbox of workers (STEPD_SANDBOX): %s", why);
	}
}

int
devices_find(const struct config *c, const char *held, const atomic_bool *stop, struct devices *out)
{
	struct probe_options o = {.program = c->worker_cuda,
	    .held = held,
	    .stop = stop,
	    .seconds = (unsigned)c->ready_timeout,
	    .uid = c->worker_uid,
	    .gid = c->worker_gid};
	struct devices outside;
	int error = look(&o, c, out);

	if (strcmp(c->sandbox, "off") == 0 || !is_lacking(error, out))
		return error;
	o.no_sandbox = true;
	if (look(&o, c, &outside) != 0)
		return error;
	if (error != 0)
		snprintf(out->error, sizeof(out->error), "the probe failed");
	tell_sandbox(out, &outside);
	return out->count > 0 ? 0 : error;
}
