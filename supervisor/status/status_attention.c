/* What somebody has to act on, a sentence each. A fact that could not be read is told too: it is
   not a good one. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "supervisor/http/tls.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/status/status_write.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

enum {
	FULL_PERCENT = 95,
	STUCK_SECONDS = 30,
	CERTIFICATE_DAYS = 7,
	TRIES_TOLD = 3,
	DAY = 24 * 60 * 60,
};

static void tell(struct json_writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
tell(struct json_writer *w, const char *format, ...)
{
	char sentence[512];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	json_write_string(w, sentence);
}

static bool
is_full(uint64_t all, uint64_t free)
{
	double used = all > free ? (double)(all - free) : 0;

	return all > 0 && 100 * used / (double)all >= FULL_PERCENT;
}

/* One line for a file system, whatever of ours lies on it. */
static bool
is_told(const struct status_facts *facts, int disk)
{
	for (int i = 0; i < disk; i++) {
		if (facts->disks[i].known && facts->disks[i].device == facts->disks[disk].device)
			return true;
	}
	return false;
}

static void
tell_disks(const struct status_facts *facts, struct json_writer *w)
{
	for (int i = 0; i < STATUS_DISKS; i++) {
		const struct fact_disk *d = facts != NULL ? &facts->disks[i] : NULL;
		const char *name = status_disk_name(i);

		if (d == NULL || !d->known) {
			tell(w, "the disk of the %s could not be read", name);
			continue;
		}
		if (is_told(facts, i))
			continue;
		if (is_full(d->bytes, d->bytes_free))
			tell(w, "the disk of the %s is full to %d %% or more", name, FULL_PERCENT);
		if (is_full(d->inodes, d->inodes_free))
			tell(w, "the disk of the %s has used %d %% or more of its inodes", name,
			    FULL_PERCENT);
	}
}

static void
tell_store(struct stepd *s, struct json_writer *w)
{
	struct store_facts f;
	int error = store_facts(s->store, &f);

	if (error == -ESTALE) {
		tell(w, "the store's file was removed, or there is another in its place: nothing "
			"is kept, so nothing is done; put it back and start stepd again");
		return;
	}
	if (error != 0) {
		tell(w, "the store could not be read");
		return;
	}
	if (is_full(f.map_bytes, f.map_bytes - f.used_bytes))
		tell(w, "the store is full to %d %% or more of what it may hold", FULL_PERCENT);
	if (f.oldest_seconds > STUCK_SECONDS)
		tell(w, "the store has not finished a change for %.0f s: its disk does not answer",
		    f.oldest_seconds);
}

static void
tell_certificate(struct stepd *s, struct json_writer *w)
{
	int64_t left;

	if (s->tls == NULL)
		return;
	left = tls_not_after(s->tls) - (int64_t)time(NULL);
	if (left < 0)
		tell(w, "the TLS certificate has ended");
	else if (left < CERTIFICATE_DAYS * DAY)
		tell(w, "the TLS certificate ends in less than %d days", CERTIFICATE_DAYS);
}

/* GPUs that are meant and do not compute, and those that are gone or never came. */
static void
tell_gpus(struct stepd *s, struct json_writer *w)
{
	const struct slots *slots = &s->sessions->slots;
	const struct devices *all = s->devices;
	char uuid[64];

	for (size_t i = 0; i < all->count; i++) {
		const struct device *d = &all->at[i];

		if (!d->verified && !d->held && slots_mean(slots, all, s->config->devices, d))
			tell(w, "GPU %zu (%s%s%s) is not used: %s", i, d->name,
			    d->name[0] != '\0' ? ", " : "", d->uuid, d->error);
	}
	for (size_t i = 0; i < slots->count; i++) {
		const struct slot *slot = &slots->slots[i];

		if (slot->closed && slot->kind == SLOT_GPU &&
		    devices_by_uuid(all, slot->device) == NULL)
			tell(w, "GPU %s, %s, is gone", slot->device, slot->name);
	}
	if (slots->count == 0)
		tell(w, "no GPU of STEPD_DEVICES computes: no session can be opened");
	for (const char *at = s->config->devices; slots_next_missing(&at, all, uuid);) {
		if (!slots_have_device(slots, uuid))
			tell(w, "GPU %s of STEPD_DEVICES is not there", uuid);
	}
}

static void
tell_session(const struct session *s, struct json_writer *w)
{
	if (s->state == SESSION_AWAITING)
		tell(w, "session %s waits for its client to render its datums again (step %llu)",
		    s->record.id, (unsigned long long)s->record.step);
	if (s->state == SESSION_NEEDS_RESTORE && s->restore.waits_for_device)
		tell(w, "session %s waits for its device to compute again (step %llu, saved %llu)",
		    s->record.id, (unsigned long long)s->record.step,
		    (unsigned long long)s->record.saved_step);
	else if (s->state == SESSION_NEEDS_RESTORE)
		tell(w, "session %s has no worker and has to be restored (step %llu, saved %llu)",
		    s->record.id, (unsigned long long)s->record.step,
		    (unsigned long long)s->record.saved_step);
	if (s->child == NULL && s->restore.tries >= TRIES_TOLD &&
	    s->state != SESSION_NEEDS_RESTORE && s->state != SESSION_CLOSED)
		tell(w, "session %s: %u workers in a row ended before they did anything",
		    s->record.id, s->restore.tries);
	if (s->restore.resend_to > s->record.step)
		tell(w, "session %s: its client has to send the steps %llu to %llu again",
		    s->record.id, (unsigned long long)s->record.step + 1,
		    (unsigned long long)s->restore.resend_to);
	if (s->replay_differences > 0)
		tell(w, "session %s: %llu steps came out otherwise when they were replayed",
		    s->record.id, (unsigned long long)s->replay_differences);
}

void
status_write_attention(struct stepd *s, const struct status_facts *facts, struct json_writer *w)
{
	size_t told = 0;

	json_write_key(w, "attention");
	json_write_array(w);
	tell_disks(facts, w);
	tell_store(s, w);
	tell_certificate(s, w);
	tell_gpus(s, w);
	for (const struct session *at = s->sessions->first; at != NULL; at = at->next) {
		if (at->state != SESSION_CLOSED && told++ < STATUS_SESSIONS_MAX)
			tell_session(at, w);
	}
	json_write_array_end(w);
}
