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
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

static bool
is_over(const struct stepd *s, const struct kept_answer *answer)
{
	/* A clock that was set back keeps answers longer, never shorter. */
	return (int64_t)time(NULL) - answer->at > (int64_t)s->config->key_lifetime;
}

static void
reply_again(struct session *s, struct session_request *request, const struct kept_answer *answer)
{
	char step[32];

	snprintf(step, sizeof(step), "%llu", (unsigned long long)answer->step);
	http_add_header(request->http, "Stepd-Step", step);
	http_add_header(request->http, "Stepd-Durable", s->stepd->config->durability);
	http_reply_json(request->http, 200, answer->json, answer->json_len);
	session_request_free(request);
}

bool
session_answer_again(struct session *s, struct session_request *request)
{
	uint8_t key[KEPT_KEY_MAX];
	struct kept_answer answer;
	bool answered = false;
	void *data;
	size_t len;
	int error;

	if (request->key == NULL)
		return false;
	len = kept_answer_key(key, s->record.id, request->key);
	error = store_get(s->stepd->store, STORE_ANSWERS, key, len, &data, &len);
	if (error == 0)
		error = kept_answer_get(&answer, data, len);
	if (error != 0 && error != -ENOENT) {
		log_error("session %s: the answer to a key cannot be read: %s", s->record.id,
		    strerror(-error));
		session_refuse(
		    s, request, 503, "the trainer cannot read what it answered to this key");
		answered = true;
	} else if (error == 0 && !is_over(s->stepd, &answer)) {
		if (answer.kind != request->kind ||
		    memcmp(answer.digest, request->digest, sizeof(answer.digest)) != 0) {
			session_refuse(s, request, 422,
			    "the Idempotency-Key was used for another request of this session");
			answered = true;
		} else if (answer.json_len > 0) {
			reply_again(s, request, &answer);
			answered = true;
		}
	}
	free(data);
	return answered;
}

/* The records that are not needed any more, collected while the table is read. */
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
		over = kept_answer_get(&answer, data, len) == 0 && is_over(sweep->stepd, &answer);
	else
		over = s != NULL && s->state == SESSION_CLOSED;
	over = over || (s == NULL && sessions_is_unknown(sweep->stepd, id));
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
