#include "supervisor/session/anchor_find.h"

#include <errno.h>
#include <string.h>

#include "ipc/log.h"
#include "supervisor/session/anchor_file.h"
#include "supervisor/session/sessions.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

static int
take_record(void *ctx, const void *key, size_t key_len, const void *data, size_t len)
{
	char id[SESSION_ID_SIZE] = "";
	struct anchor anchor;
	struct session *s;
	int error;

	if (key_len != sizeof(id) - 1)
		return 0;
	memcpy(id, key, key_len);
	s = sessions_find(ctx, id);
	if (s == NULL) {
		struct store_write gone = {STORE_ANCHORS, key, key_len, NULL, 0};
		struct stepd *stepd = ctx;

		return sessions_is_unknown(stepd, id)
			   ? store_commit(stepd->store, &gone, 1, NULL, NULL)
			   : 0;
	}
	error = anchor_get(&anchor, data, len);
	anchor.named = error == 0;
	anchor.unreadable = error != 0;
	anchor.newer = error == -EPROTO;
	s->anchor = anchor;
	if (error != 0)
		log_error("session %s: the record of its snapshot cannot be read (%s); it is left",
		    id, strerror(-error));
	else if (s->state == SESSION_CLOSED)
		anchor_drop(s);
	return 0;
}

/* Of no session that this stepd knows, or not the one that its session chose? A store that knows
   none may be another than the one these files go with, whose disk is not there yet. */
static bool
is_left_over(void *ctx, const char *id, const char *name)
{
	const struct session *s = sessions_find(ctx, id);
	const struct stepd *stepd = ctx;
	char chosen[ANCHOR_NAME_SIZE];

	if (stepd->sessions->first == NULL) {
		log_warning("the store knows no session; %s is left in the spool", name);
		return false;
	}
	if (s == NULL)
		return sessions_is_unknown(ctx, id);
	if (s->anchor.unreadable)
		return false;
	anchor_file_name(chosen, id, s->anchor.step, s->anchor.kind);
	return !s->anchor.named || strcmp(chosen, name) != 0;
}

int
anchor_find_all(struct stepd *stepd)
{
	int error = store_each(stepd->store, STORE_ANCHORS, take_record, stepd);

	if (error == 0)
		anchor_file_each(stepd->sessions->spool, is_left_over, stepd);
	return error;
}
