#include "supervisor/session/slot.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A CPU is one device: two sessions at a time would each be half as fast, and twice the memory. */
static void
add_cpu(struct slots *s)
{
	s->slots[s->count++] = (struct slot){.kind = SLOT_CPU, .device = "cpu", .name = "cpu"};
}

static void
add_gpu(struct slots *s, const struct device *d)
{
	struct slot *slot = &s->slots[s->count];

	if (!d->verified)
		return;
	*slot = (struct slot){.kind = SLOT_GPU};
	snprintf(slot->device, sizeof(slot->device), "%s", d->uuid);
	snprintf(slot->bus, sizeof(slot->bus), "%s", d->bus);
	snprintf(slot->name, sizeof(slot->name), "%s", d->name);
	s->count++;
}

/* The driver counts those that are there: when one has gone, those behind it move up. An index
   stays with the GPU that it was first. */
static void
note_indices(struct slots *s, const struct devices *found)
{
	for (size_t i = 0; i < found->count; i++) {
		if (s->first[i][0] == '\0')
			snprintf(s->first[i], sizeof(s->first[i]), "%s", found->at[i].uuid);
	}
}

/* By its UUID or its index. NULL: there is none. */
static const struct device *
find_gpu(const struct slots *s, const struct devices *found, const char *name, size_t len)
{
	char index[24], uuid[sizeof(found->at[0].uuid)];

	for (size_t i = 0; i < DEVICES_MAX; i++) {
		snprintf(index, sizeof(index), "%zu", i);
		if (strlen(index) != len || memcmp(index, name, len) != 0)
			continue;
		if (s->first[i][0] != '\0')
			return devices_by_uuid(found, s->first[i]);
		return i < found->count ? &found->at[i] : NULL;
	}
	if (len >= sizeof(uuid))
		return NULL;
	snprintf(uuid, sizeof(uuid), "%.*s", (int)len, name);
	return devices_by_uuid(found, uuid);
}

/* GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, or MIG- */
static bool
is_uuid(const char *name, size_t len)
{
	static const char form[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (len != sizeof(form) - 1 ||
	    (strncmp(name, "GPU-", 4) != 0 && strncmp(name, "MIG-", 4) != 0))
		return false;
	for (size_t i = 4; i < len; i++) {
		if (form[i] == '-' ? name[i] != '-' : !isxdigit((unsigned char)name[i]))
			return false;
	}
	return true;
}

bool
slots_next_missing(const char **at, const struct devices *found, char uuid[64])
{
	while (**at != '\0') {
		const char *name = *at;
		size_t len = strcspn(name, ",");

		*at += len + (name[len] == ',');
		if (!is_uuid(name, len))
			continue;
		snprintf(uuid, 64, "%.*s", (int)len, name);
		if (devices_by_uuid(found, uuid) == NULL)
			return true;
	}
	return false;
}

static int
add_named(struct slots *s, const struct devices *found, const char *names, char unknown[128])
{
	bool named[DEVICES_MAX] = {false};

	for (const char *at = names;; at++) {
		size_t len = strcspn(at, ",");
		const struct device *d = find_gpu(s, found, at, len);

		if (d == NULL ? !is_uuid(at, len) : named[d - found->at]) {
			snprintf(unknown, 128, "\"%.*s\" %s", len < 64 ? (int)len : 64, at,
			    d == NULL ? "is not there" : "is there only once");
			return -EINVAL;
		}
		if (d != NULL) {
			named[d - found->at] = true;
			add_gpu(s, d);
		}
		at += len;
		if (*at == '\0')
			return 0;
	}
}

int
slots_init(struct slots *s, const struct devices *found, const char *wanted, char unknown[128])
{
	bool automatic = strcmp(wanted, "auto") == 0;

	*s = (struct slots){.count = 0};
	note_indices(s, found);
	if (strcmp(wanted, "cpu") == 0 || (automatic && found->count == 0))
		add_cpu(s);
	else if (!automatic && found->count > 0)
		return add_named(s, found, wanted, unknown);
	else
		for (size_t i = 0; i < found->count; i++)
			add_gpu(s, &found->at[i]);
	return 0;
}

bool
slots_mean(
    const struct slots *s, const struct devices *found, const char *wanted, const struct device *d)
{
	if (strcmp(wanted, "auto") == 0 || strcmp(wanted, "cpu") == 0)
		return *wanted == 'a';
	for (const char *at = wanted;; at++) {
		size_t len = strcspn(at, ",");

		if (find_gpu(s, found, at, len) == d)
			return true;
		at += len;
		if (*at == '\0')
			return false;
	}
}

bool
slots_have_device(const struct slots *s, const char *device)
{
	for (size_t i = 0; i < s->count; i++) {
		if (strcmp(s->slots[i].device, device) == 0)
			return true;
	}
	return false;
}

void
slots_update(struct slots *s, const struct devices *found, const char *wanted)
{
	bool any = false;

	note_indices(s, found);
	for (size_t i = 0; i < s->count; i++) {
		struct slot *slot = &s->slots[i];
		const struct device *d = devices_by_uuid(found, slot->device);

		if (slot->kind != SLOT_GPU)
			continue;
		slot->failed &= d == NULL || !d->verified;
		slot->closed = d == NULL || !(d->verified || (d->held && !slot->failed));
	}
	for (size_t i = 0; i < found->count; i++) {
		const struct device *d = &found->at[i];

		if (d->verified && s->count < SLOTS_MAX && !slots_have_device(s, d->uuid) &&
		    slots_mean(s, found, wanted, d))
			add_gpu(s, d);
	}
	for (size_t i = 0; i < s->count; i++)
		any |= s->slots[i].kind == SLOT_GPU;
	for (size_t i = 0; i < s->count; i++)
		s->slots[i].closed |= s->slots[i].kind == SLOT_CPU && any;
}

static bool
is_of(const struct slot *slot, enum slot_kind kind)
{
	return kind == SLOT_ANY || slot->kind == kind;
}

struct slot *
slots_take(struct slots *s, enum slot_kind kind)
{
	for (size_t i = 0; i < s->count; i++) {
		struct slot *slot = &s->slots[i];

		if (!slot->taken && !slot->closed && is_of(slot, kind)) {
			slot->taken = true;
			return slot;
		}
	}
	return NULL;
}

bool
slots_have(const struct slots *s, enum slot_kind kind)
{
	for (size_t i = 0; i < s->count; i++) {
		if (is_of(&s->slots[i], kind) && (s->slots[i].taken || !s->slots[i].closed))
			return true;
	}
	return false;
}

void
slot_release(struct slot *slot)
{
	if (slot == NULL)
		return;
	slot->taken = false;
	slot->closed |= slot->failed;
}

bool
slots_any_taken(const struct slots *s)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->slots[i].taken)
			return true;
	}
	return false;
}

bool
slots_any_free(const struct slots *s, enum slot_kind kind)
{
	for (size_t i = 0; i < s->count; i++) {
		if (is_of(&s->slots[i], kind) && !s->slots[i].taken && !s->slots[i].closed)
			return true;
	}
	return false;
}
