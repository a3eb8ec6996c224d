/* Operations after a restart. What the session did is found by the key; a step whose intent was
   accepted is asked for again, and closing too; the rest needs its client, for its text or its
   signed URL was never in the store. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/blob.h"
#include "ipc/log.h"
#include "supervisor/api/api_call.h"
#include "supervisor/api/operations.h"
#include "supervisor/session/sessions.h"
#include "supervisor/store/store.h"

/* The operations as they are read: by id, which says nothing about their order. */
struct reading {
	struct operation *read[OPERATIONS_MAX];
	size_t count;
	struct stepd *stepd;
};

static int
fill_answer(struct operation *o, const struct operation_record *record)
{
	o->answered = o->done = true;
	o->status = record->status;
	o->headers = strdup(record->headers);
	if (!record->has_body)
		return o->headers == NULL ? -ENOMEM : 0;
	o->body = malloc(record->body_len + 1);
	if (o->body == NULL || o->headers == NULL)
		return -ENOMEM;
	memcpy(o->body, record->body, record->body_len);
	o->len = record->body_len;
	return 0;
}

static int
fill(struct operation *o, const struct operation_record *record)
{
	snprintf(o->session_id, sizeof(o->session_id), "%s", record->session_id);
	snprintf(o->call, sizeof(o->call), "%s", record->call);
	memcpy(o->digest, record->digest, sizeof(o->digest));
	o->kind = record->kind;
	o->number = record->number;
	o->at = record->at;
	o->accepted = true;
	o->learning_rate = record->learning_rate;
	o->force = record->force;
	if (record->stage == OPERATION_ANSWERED)
		return fill_answer(o, record);
	if (record->ids_len > 0)
		o->ids = malloc(record->ids_len);
	if (o->ids != NULL) {
		memcpy(o->ids, record->ids, record->ids_len);
		o->ids_len = record->ids_len;
	}
	return 0;
}

/* More may be in the store than fit: one that was forgotten while the disk took nothing is still
   there. The oldest that is done goes, be it this one: false. */
static bool
make_room(struct reading *reading, const struct operation_record *record)
{
	struct operation **oldest = NULL;

	if (reading->count < OPERATIONS_MAX)
		return true;
	for (size_t i = 0; i < reading->count; i++) {
		struct operation **at = &reading->read[i];

		if ((*at)->done && (oldest == NULL || (*at)->number < (*oldest)->number))
			oldest = at;
	}
	if (oldest == NULL ||
	    (record->stage == OPERATION_ANSWERED && record->number < (*oldest)->number))
		return false;
	operation_forget(*oldest);
	*oldest = reading->read[--reading->count];
	return true;
}

/* One that does not fit: what is not done waits in the store for the next start. 0 or -ENOMEM. */
static int
turn_away(struct stepd *s, const struct operation_record *record, const char *id)
{
	struct store_write gone = {STORE_OPERATIONS, id, strlen(id), NULL, 0};

	if (record->stage == OPERATION_ANSWERED)
		return store_commit(s->store, &gone, 1, NULL, NULL);
	log_warning("operation %s does not fit beside the others; it is left in the store", id);
	return 0;
}

static int
read_one(void *ctx, const void *key, size_t key_len, const void *data, size_t len)
{
	struct reading *reading = ctx;
	struct operation_record record;
	struct operation *o;
	char id[OPERATION_ID_SIZE] = "";
	int error = operation_record_get(&record, data, len);

	if (error == 0 && key_len != sizeof(id) - 1)
		error = -EBADMSG;
	if (error != 0) {
		log_error("an operation in the store cannot be read (%s); it is left there",
		    strerror(-error));
		return 0;
	}
	memcpy(id, key, key_len);
	if (!make_room(reading, &record))
		return turn_away(reading->stepd, &record, id);
	o = operation_new(reading->stepd, id, record.key);
	if (o == NULL)
		return -ENOMEM;
	reading->read[reading->count++] = o;
	return fill(o, &record);
}

static int
by_number(const void *a, const void *b)
{
	const struct operation *const *x = a, *const *y = b;

	return ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

static void
sort(struct operations *all, struct reading *reading)
{
	qsort(reading->read, reading->count, sizeof(struct operation *), by_number);
	TAILQ_INIT(&all->list);
	for (size_t i = 0; i < reading->count; i++)
		TAILQ_INSERT_TAIL(&all->list, reading->read[i], link);
	if (reading->count > 0)
		all->next_number = reading->read[reading->count - 1]->number + 1;
}

/* The request as it was, as far as the store has it. Consumes http. */
static struct session_request *
make_request(struct operation *o, struct http_request *http)
{
	int fd = o->ids_len == 0 ? -1 : blob_from("datum-ids", o->ids, o->ids_len);
	struct session_request *request = session_request_new((enum request_kind)o->kind, http, fd);

	if (request != NULL)
		request->key = strdup(o->key);
	if (request == NULL || request->key == NULL || (o->ids_len > 0 && fd < 0)) {
		session_request_free(request);
		http_reply_detail(http, 503, api_no_memory);
		return NULL;
	}
	memcpy(request->digest, o->digest, sizeof(request->digest));
	o->resumed = true;
	request->learning_rate = o->learning_rate;
	request->force = o->force;
	return request;
}

static void
reply_not_done(struct session_request *request, const struct session *session)
{
	char sentence[200];

	if (session == NULL)
		snprintf(sentence, sizeof(sentence),
		    "stepd was started again before the session was open: send it again");
	else
		snprintf(sentence, sizeof(sentence),
		    "stepd was started again before this was done; the session is at step %llu; "
		    "nothing was lost: send it again",
		    (unsigned long long)session->record.step);
	http_reply_detail(request->http, 503, sentence);
	session_request_free(request);
}

static void
resume(struct stepd *s, struct operation *o)
{
	struct session *session = sessions_find(s, o->session_id);
	struct http_request *http = operation_request(o);
	struct session_request *request = http == NULL ? NULL : make_request(o, http);
	bool answered;

	if (request == NULL)
		return;
	if (session == NULL && request->kind != REQUEST_OPEN) {
		session_request_free(request);
		http_reply_detail(http, 404, sessions_not_found);
		return;
	}
	if ((request->kind == REQUEST_TRAIN && request->fd >= 0) ||
	    request->kind == REQUEST_CLOSE) {
		session_post(session, request);
		return;
	}
	answered = session != NULL ? session_answer_again(session, request)
				   : sessions_open_again(s, request);
	if (!answered)
		reply_not_done(request, session);
}

int
operations_resume(struct stepd *s)
{
	struct reading *reading = calloc(1, sizeof(*reading));
	int error;

	if (reading == NULL)
		return -ENOMEM;
	reading->stepd = s;
	error = store_each(s->store, STORE_OPERATIONS, read_one, reading);
	if (error == 0)
		sort(s->operations, reading);
	for (size_t i = 0; error == 0 && i < reading->count; i++) {
		if (!reading->read[i]->answered)
			resume(s, reading->read[i]);
	}
	free(reading);
	return error;
}
