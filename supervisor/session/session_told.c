/* What the store and a transfer say becomes events; what answers and artifacts need around them. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ipc/json_write.h"
#include "ipc/log.h"
#include "supervisor/session/session_action.h"

void
session_kept(void *ctx, int error)
{
	struct session_input none = {0};

	session_event(ctx, error == 0 ? EV_KEPT : EV_NOT_KEPT, &none);
}

void
session_moved(void *ctx, struct transfer_result *result)
{
	struct session_input in = {.moved = result};
	struct session *s = ctx;

	s->transfer = NULL;
	if (result->error != 0) {
		log_warning("session %s: the %s failed (HTTP %u): %s", s->record.id,
		    s->state == SESSION_UPLOADING ? "upload" : "download", result->status,
		    result->reason);
	}
	session_event(s, result->error == 0 ? EV_MOVED : EV_NOT_MOVED, &in);
}

int
session_take_json(char json[KEPT_JSON_MAX], struct json_writer *w)
{
	size_t len = 0;
	const char *text = json_writer_text(w, &len);
	int error = text == NULL ? -ENOMEM : len >= KEPT_JSON_MAX ? -EMSGSIZE : 0;

	json[0] = '\0';
	if (error == 0)
		memcpy(json, text, len + 1);
	json_writer_fini(w);
	return error;
}

void
session_drop_spool(struct session *s)
{
	if (s->spool >= 0)
		close(s->spool);
	s->spool = -1;
}
