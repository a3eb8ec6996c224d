#include "supervisor/session/sessions.h"

#include <errno.h>
#include <event2/event.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/session/anchor_find.h"
#include "supervisor/session/devices_again.h"
#include "supervisor/session/kept_clock.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions_load.h"
#include "supervisor/settings/config.h"
#include "supervisor/offload.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

enum {
	CLOSED_KEPT = 256, /* closed sessions that are remembered */
	SWEEP_SECONDS = 3600,
};

const char sessions_not_found[] = "training session not found";

void
sessions_slots_changed(struct stepd *s)
{
	s->health.active_session = slots_any_taken(&s->sessions->slots);
}

void
sessions_add(struct session *s)
{
	s->next = s->stepd->sessions->first;
	s->stepd->sessions->first = s;
}

static void
forget(struct session *s)
{
	struct store_write gone = {STORE_SESSIONS, s->record.id, strlen(s->record.id), NULL, 0};

	store_commit(s->stepd->store, &gone, 1, NULL, NULL);
	sessions_remove(s);
}

/* Only the newest closed sessions are kept. */
static void
prune(struct stepd *s)
{
	struct session *oldest = NULL;
	size_t closed = 0;

	for (struct session *at = s->sessions->first; at != NULL; at = at->next) {
		if (at->state != SESSION_CLOSED)
			continue;
		closed++;
		if (oldest == NULL || at->record.changed_at <= oldest->record.changed_at)
			oldest = at;
	}
	if (closed > CLOSED_KEPT)
		forget(oldest);
}

/* Datums are memory that a client chose the size of: those of sessions without a worker go when the
   device has a new one. */
static void
drop_datums(struct stepd *s)
{
	for (struct session *at = s->sessions->first; at != NULL; at = at->next) {
		if (at->slot != NULL)
			continue;
		datum_log_fini(&at->datums);
		at->restore.read = false; /* those that are on the disk too are there to be read */
	}
}

static void
on_sweep(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	kept_clock_keep(arg);
	sessions_sweep(arg);
}

static int
start_sweeping(struct stepd *s)
{
	struct timeval interval = {.tv_sec = SWEEP_SECONDS};
	int error;

	store_set_sync(s->store, strcmp(s->config->durability, "disk") == 0);
	error = kept_clock_start(s);
	if (error != 0)
		return error;
	sessions_sweep(s);
	s->sessions->sweep = event_new(s->base, -1, EV_PERSIST, on_sweep, s);
	return s->sessions->sweep == NULL || event_add(s->sessions->sweep, &interval) != 0 ? -ENOMEM
											   : 0;
}

static int
find_slots(struct stepd *s)
{
	struct slots *slots = &s->sessions->slots;
	const char *at = s->config->devices;
	char unknown[128], uuid[64];

	if (slots_init(slots, s->devices, s->config->devices, unknown) != 0) {
		log_error("STEPD_DEVICES: %s", unknown);
		return -ENODEV;
	}
	while (slots_next_missing(&at, s->devices, uuid))
		log_error("STEPD_DEVICES: GPU %s is not there", uuid);
	if (slots->count == 0)
		log_error("no GPU of STEPD_DEVICES computes: no session can be opened");
	return 0;
}

int
sessions_start(struct stepd *s)
{
	struct sessions *all = calloc(1, sizeof(*all));
	char reason[256];
	int error;

	if (all == NULL)
		return -ENOMEM;
	s->sessions = all;
	error = find_slots(s);
	if (error != 0)
		return error;
	if (asprintf(&all->spool, "%s/spool", s->config->state_dir) < 0)
		all->spool = NULL;
	if (all->spool == NULL)
		return -ENOMEM;
	if (access(s->config->worker, X_OK) != 0) {
		error = -errno;
		log_error("the worker %s: %s", s->config->worker, strerror(-error));
		return error;
	}
	error = seal_key_open(
	    &all->seal_key, s->state_fd, getenv("CREDENTIALS_DIRECTORY"), true, reason);
	if (error != 0) {
		log_error("%s", reason);
		return error;
	}
	error = sessions_load(s);
	if (error == 0)
		error = anchor_find_all(s);
	if (error == 0)
		error = datum_file_start(s);
	if (error == 0)
		upload_find_all(s);
	if (error == 0)
		error = start_sweeping(s);
	return error == 0 ? sessions_revive_all(s) : error;
}

bool
sessions_stop(struct stepd *s)
{
	struct session_input none = {0};
	struct session *next;
	bool over = true;

	for (struct session *at = s->sessions->first; at != NULL; at = next) {
		next = at->next;
		if (!at->stopping)
			session_event(at, EV_STOP, &none);
	}
	for (struct session *at = s->sessions->first; at != NULL; at = at->next)
		over = over && at->slot == NULL;
	return over;
}

void
sessions_free(struct stepd *s)
{
	if (s->sessions == NULL)
		return;
	s->sessions->ending = true;
	offload_finish(); /* snapshots that are being checked still need their sessions */
	while (s->sessions->first != NULL) {
		struct session *first = s->sessions->first;

		s->sessions->first = first->next;
		session_free(first);
	}
	anchor_free_all(s);
	if (s->sessions->sweep != NULL)
		event_free(s->sessions->sweep);
	seal_key_wipe(&s->sessions->seal_key);
	free(s->sessions->spool);
	free(s->sessions);
	s->sessions = NULL;
}

struct session *
sessions_find(struct stepd *s, const char *id)
{
	for (struct session *at = s->sessions->first; at != NULL; at = at->next) {
		if (strcmp(at->record.id, id) == 0)
			return at;
	}
	return NULL;
}

struct session *
sessions_new(struct stepd *stepd, unsigned *status, const char **sentence)
{
	struct slot *slot = slots_take(&stepd->sessions->slots, SLOT_ANY);
	struct session *s;
	uint8_t id[16];

	if (slot == NULL)
		devices_look_again(stepd, DEVICES_LACKED);
	if (!slots_have(&stepd->sessions->slots, SLOT_ANY)) {
		*status = 503;
		*sentence = "accelerator unavailable";
		return NULL;
	}
	if (slot == NULL) {
		*status = 409;
		*sentence = "a training session is already active";
		return NULL;
	}
	s = session_new(stepd);
	if (s == NULL) {
		slot_release(slot);
		*status = 503;
		*sentence = "stepd has no memory left for a session";
		return NULL;
	}
	randombytes_buf(id, sizeof(id));
	sodium_bin2hex(s->record.id, sizeof(s->record.id), id, sizeof(id));
	s->record.fate = FATE_OPEN;
	s->record.opened_at = s->record.changed_at = (int64_t)time(NULL);
	s->slot = slot;
	s->record.kind = slot->kind;
	devices_taken(stepd, slot);
	prune(stepd);
	drop_datums(stepd);
	sessions_add(s);
	sessions_slots_changed(stepd);
	return s;
}

void
sessions_release(struct session *s)
{
	bool doubted, failed;

	if (s->slot == NULL)
		return;
	doubted = s->slot->doubted;
	failed = s->slot->failed;
	s->slot->doubted = false;
	slot_release(s->slot);
	s->slot = NULL;
	if (failed)
		devices_look_again(s->stepd, DEVICES_FAILED);
	else if (doubted)
		devices_look_again(s->stepd, DEVICES_ASKED);
	sessions_slots_changed(s->stepd);
}

void
sessions_keep(struct session *s)
{
	uint8_t packed[SESSION_RECORD_MAX];
	struct store_write write = {STORE_SESSIONS, s->record.id, strlen(s->record.id), packed, 0};
	long len;

	s->record.changed_at = (int64_t)time(NULL);
	len = session_record_put(&s->record, packed);
	write.len = len < 0 ? 0 : (size_t)len;
	if (len < 0 || store_commit(s->stepd->store, &write, 1, NULL, NULL) != 0)
		log_error("session %s: its record could not be kept", s->record.id);
}

void
sessions_remove(struct session *s)
{
	struct session **link = &s->stepd->sessions->first;

	while (*link != NULL && *link != s)
		link = &(*link)->next;
	if (*link == s)
		*link = s->next;
	sessions_release(s);
	session_free(s);
}
