/* Idempotency-Key: a request that was done is answered again, not done again. Requests of a session
   are served in their order, so one that comes while the first is under way finds its answer when
   its turn comes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ipc/log.h"
#include "supervisor/http/http.h"
#include "supervisor/session/kept_find.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

static const char other_request[] = "the Idempotency-Key was used for another request";

static void
reply_again(struct stepd *stepd, struct session_request *request, const struct kept_answer *answer)
{
	char step[32];

	snprintf(step, sizeof(step), "%llu", (unsigned long long)answer->step);
	http_add_header(request->http, "Stepd-Step", step);
	http_add_header(request->http, "Stepd-Durable", stepd->config->durability);
	http_reply_json(request->http, 200, answer->json, answer->json_len);
	session_request_free(request);
}

/* s: NULL for an opening, which has none yet. */
static void
refuse(struct session *s, struct session_request *request, unsigned status, const char *sentence)
{
	if (s != NULL) {
		session_refuse(s, request, status, sentence);
		return;
	}
	http_reply_detail(request->http, status, sentence);
	session_request_free(request);
}

static bool
answer_kept(struct stepd *stepd, struct session *s, struct session_request *request)
{
	const char *id = request->kind == REQUEST_OPEN ? KEPT_OPENING : s->record.id;
	struct kept_answer answer;
	bool answered = true;
	void *data;
	int error = kept_find(stepd, id, request->key, &answer, &data);

	if (error == -ENOENT)
		return false;
	if (error != 0) {
		log_error("the answer to a key (%s) cannot be read: %s", id, strerror(-error));
		refuse(s, request, 503, "the trainer cannot read what it answered to this key");
	} else if (answer.kind != request->kind ||
		   memcmp(answer.digest, request->digest, sizeof(answer.digest)) != 0) {
		refuse(s, request, 422, other_request);
	} else if (answer.json_len > 0) {
		reply_again(stepd, request, &answer);
	} else {
		answered = false;
	}
	free(data);
	return answered;
}

bool
session_answer_again(struct session *s, struct session_request *request)
{
	return request->key != NULL && answer_kept(s->stepd, s, request);
}

/* Those that come while the first is still loading wait in the line of its session. */
bool
sessions_open_again(struct stepd *stepd, struct session_request *request)
{
	struct session *s = stepd->sessions->first;

	if (request->key == NULL)
		return false;
	for (; s != NULL; s = s->next) {
		const struct session_request *first = s->opened ? NULL : s->current;

		if (first != NULL && first->key != NULL && strcmp(first->key, request->key) == 0)
			break;
	}
	if (s == NULL)
		return answer_kept(stepd, NULL, request);
	if (memcmp(s->current->digest, request->digest, sizeof(request->digest)) != 0)
		refuse(NULL, request, 422, other_request);
	else
		session_post(s, request);
	return true;
}

/* A table whose records are looked at, one after the other. */
struct sweep {
	struct stepd *stepd;
	enum store_table table;
};

bool
sessions_is_unknown(struct stepd *stepd, const char *id)
{
	void *data;
	size_t len;
	int error = store_get(stepd->store, STORE_SESSIONS, id, strlen(id), &data, &len);

	free(data);
	return error == -ENOENT;
}

static int
sweep_one(void *ctx, const void *key, size_t key_len, const void *data, size_t len)
{
	struct sweep *sweep = ctx;
	struct store_write gone = {sweep->table, key, key_len, NULL, 0};
	char id[SESSION_ID_SIZE] = "";
	struct kept_answer answer;
	const struct session *s;
	bool over;

	if (key_len < sizeof(id) - 1)
		return 0;
	memcpy(id, key, sizeof(id) - 1);
	s = sessions_find(sweep->stepd, id);
	if (sweep->table == STORE_ANSWERS)
		over =
		    kept_answer_get(&answer, data, len) == 0 && kept_is_over(sweep->stepd, &answer);
	else
		over = s != NULL && s->state == SESSION_CLOSED;
	/* Those of calls without a session have none that could be over. */
	over =
	    over || (s == NULL && strchr(id, '-') == NULL && sessions_is_unknown(sweep->stepd, id));
	return over ? store_commit(sweep->stepd->store, &gone, 1, NULL, NULL) : 0;
}

void
sessions_sweep(struct stepd *stepd)
{
	static const enum store_table tables[] = {STORE_JOURNAL, STORE_ANSWERS};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct sweep sweep = {stepd, tables[i]};
		int error = store_each(stepd->store, tables[i], sweep_one, &sweep);

		if (error != 0)
			log_warning("old records of the store stay: %s", strerror(-error));
	}
}
