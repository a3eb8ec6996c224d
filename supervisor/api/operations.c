#include "supervisor/api/operations.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/settings/config.h"
#include "supervisor/store/store.h"

enum { SWEEP_SECONDS = 600 };

/* A byte that no header can hold: a client cannot name such a key. */
static const char own_key_mark = '\1';

struct operation *
operation_new(struct stepd *s, const char *key)
{
	struct operations *all = s->operations;
	struct operation *o, *at;
	uint8_t id[16];

	TAILQ_FOREACH(at, &all->list, link)
	if (all->count >= OPERATIONS_MAX && at->done) {
		operation_forget(at);
		break;
	}
	o = all->count < OPERATIONS_MAX ? calloc(1, sizeof(*o)) : NULL;
	if (o == NULL)
		return NULL;
	randombytes_buf(id, sizeof(id));
	sodium_bin2hex(o->id, sizeof(o->id), id, sizeof(id));
	if (key != NULL)
		o->key = strdup(key);
	else if (asprintf(&o->key, "%c%s", own_key_mark, o->id) < 0)
		o->key = NULL;
	if (o->key == NULL) {
		free(o);
		return NULL;
	}
	o->stepd = s;
	o->fd = -1;
	o->at = (int64_t)time(NULL);
	o->number = all->next_number++;
	LIST_INIT(&o->waiters);
	TAILQ_INSERT_TAIL(&all->list, o, link);
	all->count++;
	return o;
}

void
operation_free(struct operation *o)
{
	struct operations *all = o->stepd->operations;

	TAILQ_REMOVE(&all->list, o, link);
	all->count--;
	operation_drop_body(o);
	http_abandon(o->http);
	free(o->headers);
	free(o->ids);
	free(o->key);
	free(o);
}

void
operation_forget(struct operation *o)
{
	struct store_write gone = {STORE_OPERATIONS, o->id, strlen(o->id), NULL, 0};

	store_commit(o->stepd->store, &gone, 1, NULL, NULL);
	operation_free(o);
}

struct operation *
operations_find(struct stepd *s, const char *id)
{
	struct operation *o;

	TAILQ_FOREACH_REVERSE(o, &s->operations->list, operation_list, link)
	if (strcmp(o->id, id) == 0)
		return o;
	return NULL;
}

/* Refusals changed nothing, and what is gone has to be asked for again. */
static bool
is_worth_giving_again(const struct operation *o)
{
	return !o->answered || (o->status < 300 && (o->body != NULL || o->fd >= 0));
}

struct operation *
operations_find_key(struct stepd *s, const char *session_id, const char *key)
{
	struct operation *o;

	TAILQ_FOREACH_REVERSE(o, &s->operations->list, operation_list, link)
	if (strcmp(o->key, key) == 0 && strcmp(o->session_id, session_id) == 0 && !o->refused &&
	    is_worth_giving_again(o))
		return o;
	return NULL;
}

int
operation_keep(struct operation *o, void (*done)(void *ctx, int error))
{
	struct operation_record record = {.stage = OPERATION_BEGUN,
	    .kind = o->kind,
	    .number = o->number,
	    .at = o->at,
	    .call = o->call,
	    .session_id = o->session_id,
	    .key = o->key,
	    .headers = ""};
	struct store_write write = {STORE_OPERATIONS, o->id, strlen(o->id), NULL, 0};
	size_t size;
	void *packed;
	long len;
	int error;

	memcpy(record.digest, o->digest, sizeof(record.digest));
	if (o->answered) {
		record.stage = OPERATION_ANSWERED;
		record.status = o->status;
		record.headers = o->headers;
		record.has_body = !o->in_memory;
		record.body = o->body;
		record.body_len = o->in_memory ? 0 : o->len;
	} else {
		record.learning_rate = o->learning_rate;
		record.force = o->force;
		record.ids = o->ids;
		record.ids_len = o->ids_len;
	}
	size = operation_record_size(&record);
	packed = malloc(size);
	if (packed == NULL)
		return -ENOMEM;
	len = operation_record_put(&record, packed, size);
	write.data = packed;
	write.len = len < 0 ? 0 : (size_t)len;
	error = len < 0 ? (int)len : store_commit(o->stepd->store, &write, 1, done, o);
	free(packed);
	return error;
}

static void
on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct stepd *s = arg;
	struct operation *o, *next;
	int64_t now = (int64_t)time(NULL);

	(void)fd;
	(void)what;
	for (o = TAILQ_FIRST(&s->operations->list); o != NULL; o = next) {
		next = TAILQ_NEXT(o, link);
		if (o->done && now - o->at > (int64_t)s->config->key_lifetime)
			operation_forget(o);
	}
}

int
operations_start(struct stepd *s)
{
	struct timeval interval = {.tv_sec = SWEEP_SECONDS};
	int error;

	s->operations = calloc(1, sizeof(*s->operations));
	if (s->operations == NULL)
		return -ENOMEM;
	TAILQ_INIT(&s->operations->list);
	s->operations->next_number = 1;
	error = operations_resume(s);
	if (error != 0)
		return error;
	on_sweep(-1, 0, s);
	s->operations->sweep = event_new(s->base, -1, EV_PERSIST, on_sweep, s);
	return s->operations->sweep == NULL || event_add(s->operations->sweep, &interval) != 0
		   ? -ENOMEM
		   : 0;
}

/* Nobody is kept waiting. What is not done goes on with its session, or after the next start. */
bool
operations_stop(struct stepd *s)
{
	struct operation *o, *next;

	for (o = TAILQ_FIRST(&s->operations->list); o != NULL; o = next) {
		next = TAILQ_NEXT(o, link);
		if (o->accepted)
			operation_wake(o);
	}
	return true;
}

void
operations_free(struct stepd *s)
{
	if (s->operations == NULL)
		return;
	while (!TAILQ_EMPTY(&s->operations->list)) {
		struct operation *o = TAILQ_FIRST(&s->operations->list);

		operation_wake(o);
		operation_free(o);
	}
	if (s->operations->sweep != NULL)
		event_free(s->operations->sweep);
	free(s->operations);
	s->operations = NULL;
}
