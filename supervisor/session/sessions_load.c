/* The sessions of earlier runs: read from the store as stepd starts, and brought back. */
#include "supervisor/session/sessions_load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/log.h"
#include "supervisor/session/devices_again.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

/* A session of an earlier run: its worker is gone with that run. */
static int
load_one(void *ctx, const void *key, size_t key_len, const void *data, size_t len)
{
	struct stepd *stepd = ctx;
	struct session *s = session_new(stepd);
	int error;

	if (s == NULL)
		return -ENOMEM;
	error = session_record_get(&s->record, data, len);
	if (error == 0 && (strlen(s->record.id) != key_len || memcmp(s->record.id, key, key_len)))
		error = -EBADMSG;
	if (error != 0) {
		log_error("a session in the store cannot be read (%s); it is left there",
		    strerror(-error));
		session_free(s);
		return 0;
	}
	s->opened = true;
	s->restore.given_up = s->record.fate == FATE_NEEDS_RESTORE;
	s->state = s->record.fate == FATE_CLOSED ? SESSION_CLOSED : SESSION_NEEDS_RESTORE;
	sessions_add(s);
	return 0;
}

static int
by_age(const void *a, const void *b)
{
	const struct session *const *x = a, *const *y = b;

	return ((*x)->record.opened_at > (*y)->record.opened_at) -
	       ((*x)->record.opened_at < (*y)->record.opened_at);
}

/* The store keeps them by id; the list goes by age. */
static int
sort_by_age(struct sessions *all)
{
	struct session **order;
	size_t count = 0, i = 0;

	for (struct session *s = all->first; s != NULL; s = s->next)
		count++;
	order = calloc(count + 1, sizeof(struct session *));
	if (order == NULL)
		return -ENOMEM;
	for (struct session *s = all->first; s != NULL; s = s->next)
		order[i++] = s;
	qsort(order, count, sizeof(*order), by_age);
	all->first = NULL;
	for (i = 0; i < count; i++) {
		order[i]->next = all->first;
		all->first = order[i];
	}
	free(order);
	return 0;
}

int
sessions_load(struct stepd *s)
{
	int error = store_each(s->store, STORE_SESSIONS, load_one, s);

	return error != 0 ? error : sort_by_age(s->sessions);
}

/* The newest first, where there are more than devices. Then those that were given up: what they
   lacked (a disk, a model, a newer stepd) may be there now. They take no device from others. */
int
sessions_revive_all(struct stepd *s)
{
	struct sessions *all = s->sessions;
	bool waits = false;
	int error = 0;

	for (struct session *at = all->first; at != NULL && error == 0; at = at->next) {
		if (at->record.fate == FATE_OPEN)
			error = session_revive(at);
	}
	for (struct session *at = all->first; at != NULL && error == 0; at = at->next) {
		if (!at->restore.given_up)
			continue;
		if (slots_any_free(&all->slots, at->record.kind)) {
			at->record.fate = FATE_OPEN;
			error = session_revive(at);
		} else if (!slots_have(&all->slots, at->record.kind)) {
			session_wait_for_device(at);
		}
	}
	for (struct session *at = all->first; at != NULL; at = at->next)
		waits |= at->restore.waits_for_device;
	if (waits)
		devices_look_again(s, DEVICES_FAILED);
	return error;
}

bool
sessions_come_back(struct stepd *s)
{
	bool all = true;

	for (struct session *at = s->sessions->first; at != NULL; at = at->next) {
		if (at->state != SESSION_NEEDS_RESTORE || !at->restore.waits_for_device)
			continue;
		if (slots_any_free(&s->sessions->slots, at->record.kind))
			session_come_back(at);
		all = all && at->slot != NULL;
	}
	return all;
}
