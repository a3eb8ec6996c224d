#include "supervisor/session/anchor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "ipc/wire.h"
#include "supervisor/offload.h"
#include "supervisor/session/anchor_file.h"
#include "supervisor/session/journal.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

/* A file on its way to become an anchor, or one that is read again; the session may end meanwhile.
 */
struct anchoring {
	struct anchoring *next; /* of all */
	struct stepd *stepd;
	char id[SESSION_ID_SIZE];
	struct anchor anchor;
	double begun;
	char folder[PATH_MAX], name[ANCHOR_NAME_SIZE];
};

void
anchor_init(struct anchor *a)
{
	*a = (struct anchor){.fd = -1};
}

void
anchor_fini(struct anchor *a)
{
	if (a->fd >= 0)
		close(a->fd);
	anchor_init(a);
}

long
anchor_put(const struct anchor *a, void *storage)
{
	struct wire_put w;

	wire_put_init(&w, storage, ANCHOR_RECORD_MAX);
	wire_put_u8(&w, ANCHOR_VERSION);
	wire_put_u64(&w, a->step);
	wire_put_u8(&w, a->kind);
	wire_put_string(&w, a->sha256);
	return wire_put_end(&w);
}

int
anchor_get(struct anchor *a, const void *data, size_t len)
{
	struct wire_get r;
	int version;

	anchor_init(a);
	wire_get_init(&r, data, len);
	version = wire_get_version(&r, ANCHOR_VERSION);
	if (version < 0)
		return version;
	a->step = wire_get_u64(&r);
	a->kind = wire_get_u8(&r);
	wire_get_text(&r, a->sha256, sizeof(a->sha256));
	return strlen(a->sha256) != sizeof(a->sha256) - 1 ? -EBADMSG : wire_get_end(&r);
}

/* In the list of all; NULL: no memory. */
static struct anchoring *
anchoring_new(struct session *s, const struct anchor *anchor)
{
	struct anchoring *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->stepd = s->stepd;
	a->anchor = *anchor;
	memcpy(a->id, s->record.id, sizeof(a->id));
	snprintf(a->folder, sizeof(a->folder), "%s", s->stepd->sessions->spool);
	anchor_file_name(a->name, a->id, anchor->step, anchor->kind);
	a->next = s->stepd->sessions->anchorings;
	s->stepd->sessions->anchorings = a;
	return a;
}

static void
anchoring_free(struct anchoring *a)
{
	struct anchoring **link = &a->stepd->sessions->anchorings;

	while (*link != a)
		link = &(*link)->next;
	*link = a->next;
	anchor_fini(&a->anchor);
	free(a);
}

void
anchor_free_all(struct stepd *stepd)
{
	while (stepd->sessions->anchorings != NULL)
		anchoring_free(stepd->sessions->anchorings);
}

/* The end of the way; the session, where it is still there and waits for this, is told. */
static void
arrived(struct anchoring *a, struct session *s)
{
	struct session_input none = {0};

	anchoring_free(a);
	if (s == NULL)
		return;
	s->anchor.coming = NULL;
	if (!s->stepd->sessions->ending)
		session_event(s, EV_ANCHORED, &none);
}

/* The session that this is for, unless it is over. */
static struct session *
still_wanted(const struct anchoring *a)
{
	struct session *s = sessions_find(a->stepd, a->id);

	return s != NULL && s->anchor.coming == a ? s : NULL;
}

/* Its name in the spool goes, unless it is also that of the anchor that the session has. */
static void
drop_name(const struct anchoring *a, const struct session *s)
{
	char name[ANCHOR_NAME_SIZE] = "";

	if (s != NULL && s->anchor.named)
		anchor_file_name(name, a->id, s->anchor.step, s->anchor.kind);
	if (strcmp(name, a->name) != 0)
		anchor_file_remove(a->folder, a->name);
}

/* It did not become the anchor: what was before it stays. */
static void
not_anchored(struct anchoring *a, struct session *s)
{
	if (a->anchor.named)
		drop_name(a, s);
	if (s != NULL)
		s->anchor.next_step = s->record.step + a->stepd->config->snapshot_steps;
	arrived(a, s);
}

/* Takes the place of the one before it. */
static void
anchored(struct anchoring *a, struct session *s)
{
	struct anchor old = s->anchor;
	char name[ANCHOR_NAME_SIZE];

	s->anchor = a->anchor;
	s->anchor.coming = a;
	s->anchor.cost = a->begun > 0 ? monotonic_seconds() - a->begun : old.cost;
	a->anchor.fd = -1;
	anchor_file_name(name, a->id, old.step, old.kind);
	if (old.named && strcmp(name, a->name) != 0)
		anchor_file_remove(a->folder, name);
	if (old.fd >= 0)
		close(old.fd);
	arrived(a, s);
}

static void
on_chosen(void *ctx, int error)
{
	struct anchoring *a = ctx;
	struct session *s = still_wanted(a);

	if (error != 0)
		log_error("session %s: the snapshot at step %llu is not in the store", a->id,
		    (unsigned long long)a->anchor.step);
	if (error != 0 || s == NULL)
		not_anchored(a, s);
	else
		anchored(a, s);
}

/* The journal is kept from the anchor on, and from the upload that the session can be brought back
   from without anybody, unless that is long ago. */
static uint64_t
journal_floor(const struct session *s, uint64_t step)
{
	const struct upload *u = &s->upload;

	return u->url != NULL && u->url_step < step && step - u->url_step <= UPLOAD_JOURNAL
		   ? u->url_step
		   : step;
}

/* The store chooses it, and forgets the journal that is not needed any more. */
static int
choose(struct session *s, struct anchoring *a)
{
	uint64_t from = s->anchor.pruned, to = journal_floor(s, a->anchor.step);
	size_t steps = to > from ? to - from : 0;
	struct store_write *writes = calloc(steps + 1, sizeof(*writes));
	uint8_t(*keys)[JOURNAL_KEY_SIZE] = calloc(steps + 1, sizeof(*keys));
	uint8_t packed[ANCHOR_RECORD_MAX];
	long len = anchor_put(&a->anchor, packed);
	int error = -ENOMEM;

	a->anchor.pruned = from + steps;
	if (writes != NULL && keys != NULL && len > 0) {
		writes[0] = (struct store_write){
		    STORE_ANCHORS, s->record.id, strlen(s->record.id), packed, (size_t)len};
		for (size_t i = 1; i <= steps; i++) {
			journal_key(keys[i], s->record.id, from + i);
			writes[i] =
			    (struct store_write){STORE_JOURNAL, keys[i], sizeof(keys[i]), NULL, 0};
		}
		error = store_commit(s->stepd->store, writes, steps + 1, on_chosen, a);
	}
	free(writes);
	free(keys);
	return error;
}

/* In a thread. */
static int
work(void *arg)
{
	struct anchoring *a = arg;
	int error = anchor_file_check(a->anchor.fd, a->anchor.sha256);

	if (error == 0) {
		a->anchor.name_error =
		    anchor_file_link(a->anchor.fd, a->anchor.sha256, a->folder, a->name);
		a->anchor.named = a->anchor.name_error == 0;
	}
	return error;
}

static void
on_worked(void *arg, int error)
{
	struct anchoring *a = arg;
	struct session *s = still_wanted(a);

	if (error != 0)
		log_error("session %s: a recovery snapshot is not what was written (%s)", a->id,
		    strerror(-error));
	if (!a->anchor.named)
		drop_name(a, s); /* that came about, but not for sure */
	if (error != 0 || s == NULL) {
		not_anchored(a, s);
	} else if (!a->anchor.named && s->anchor.named) {
		log_warning("session %s: the snapshot gets no name (%s); the one before it stays",
		    a->id, strerror(-a->anchor.name_error));
		not_anchored(a, s);
	} else if (!a->anchor.named) {
		log_warning("session %s: the snapshot has no name (%s), and ends with stepd", a->id,
		    strerror(-a->anchor.name_error));
		a->anchor.pruned = s->anchor.pruned;
		anchored(a, s);
	} else if (choose(s, a) != 0) {
		on_chosen(a, -ENOMEM);
	}
}

void
anchor_begin(
    struct session *s, int fd, uint64_t step, uint8_t kind, const char sha256[65], double begun)
{
	struct anchor anchor = {.fd = fd, .step = step, .kind = kind, .at = monotonic_seconds()};
	struct anchoring *a = NULL;

	memcpy(anchor.sha256, sha256, sizeof(anchor.sha256));
	if (s->anchor.coming == NULL)
		a = anchoring_new(s, &anchor);
	if (a == NULL) {
		close(fd);
		return;
	}
	a->begun = begun;
	s->anchor.coming = a;
	offload_start(s->stepd->base, work, on_worked, a);
}

void
anchor_renew(struct session *s)
{
	const struct anchor *a = &s->anchor;
	int copy = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0)
		anchor_begin(s, copy, a->step, a->kind, a->sha256, 0);
}

void
anchor_drop(struct session *s)
{
	struct store_write gone = {STORE_ANCHORS, s->record.id, strlen(s->record.id), NULL, 0};
	char name[ANCHOR_NAME_SIZE];

	if (s->anchor.named) {
		anchor_file_name(name, s->record.id, s->anchor.step, s->anchor.kind);
		anchor_file_remove(s->stepd->sessions->spool, name);
		store_commit(s->stepd->store, &gone, 1, NULL, NULL);
	}
	anchor_fini(&s->anchor);
}

static int
read_again(void *arg)
{
	struct anchoring *a = arg;

	return anchor_file_find(&a->anchor.fd, a->folder, a->name, a->anchor.sha256);
}

static void
on_read_again(void *arg, int error)
{
	struct session_input none = {0};
	struct anchoring *a = arg;
	struct session *s = still_wanted(a);

	if (error != 0)
		log_error("session %s: the snapshot of step %llu in the spool: %s", a->id,
		    (unsigned long long)a->anchor.step,
		    error == -EBADMSG ? "it is not what was written" : strerror(-error));
	if (error == 0 && s != NULL) {
		s->anchor.fd = a->anchor.fd;
		a->anchor.fd = -1;
	}
	anchoring_free(a);
	if (s == NULL)
		return;
	s->anchor.coming = NULL;
	s->anchor.unread = error != 0 && !anchor_file_is_wrong(error);
	if (!s->stepd->sessions->ending)
		session_event(s, error == 0 ? EV_KEPT : EV_NOT_KEPT, &none);
}

int
anchor_check(struct session *s)
{
	struct anchoring *a = anchoring_new(s, &s->anchor);

	s->anchor.coming = a;
	if (a == NULL)
		return -ENOMEM;
	offload_start(s->stepd->base, read_again, on_read_again, a);
	return 0;
}
