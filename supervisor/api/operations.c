#include "supervisor/api/operations.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/session/kept_clock.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/store/store.h"

enum { SWEEP_SECONDS = 600 };

/* A byte that no header can hold: a client cannot name such a key. */
static const char own_key_mark = '\1';

static void
forget_oldest(struct operations *all)
{
	struct operation *o = TAILQ_FIRST(&all->list);

	while (o != NULL && !o->done)
		o = TAILQ_NEXT(o, link);
	if (o != NULL)
		operation_forget(o);
}

/* Kept as long as the answer to a key. */
static bool
is_over(const struct operation *o)
{
	return o->done && kept_clock_seconds() - o->at > (int64_t)o->stepd->config->key_lifetime;
}

static struct operation_bucket *
bucket(struct operation_bucket *buckets, const char *text)
{
	uint32_t hash = 2166136261u;

	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return &buckets[hash % OPERATION_BUCKETS];
}

/* An id, and a key that no client can name where none came. 0 or -ENOMEM. */
static int
name_operation(struct operation *o, const char *id, const char *key)
{
	uint8_t random[16];

	if (id != NULL) {
		snprintf(o->id, sizeof(o->id), "%s", id);
	} else {
		randombytes_buf(random, sizeof(random));
		sodium_bin2hex(o->id, sizeof(o->id), random, sizeof(random));
	}
	if (key != NULL)
		o->key = strdup(key);
	else if (asprintf(&o->key, "%c%s", own_key_mark, o->id) < 0)
		o->key = NULL;
	return o->key == NULL ? -ENOMEM : 0;
}

struct operation *
operation_new(struct stepd *s, const char *id, const char *key)
{
	struct operations *all = s->operations;
	struct operation *o;

	if (all->count >= OPERATIONS_MAX)
		forget_oldest(all);
	o = all->count < OPERATIONS_MAX ? calloc(1, sizeof(*o)) : NULL;
	if (o == NULL || name_operation(o, id, key) != 0) {
		free(o);
		return NULL;
	}
	o->stepd = s;
	o->fd = -1;
	o->at = kept_clock_seconds();
	o->number = all->next_number++;
	LIST_INIT(&o->waiters);
	TAILQ_INSERT_TAIL(&all->list, o, link);
	LIST_INSERT_HEAD(bucket(all->by_id, o->id), o, with_id);
	LIST_INSERT_HEAD(bucket(all->by_key, o->key), o, with_key);
	all->count++;
	return o;
}

void
operation_free(struct operation *o)
{
	struct operations *all = o->stepd->operations;

	TAILQ_REMOVE(&all->list, o, link);
	LIST_REMOVE(o, with_id);
	LIST_REMOVE(o, with_key);
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

	o = LIST_FIRST(bucket(s->operations->by_id, id));
	while (o != NULL && strcmp(o->id, id) != 0)
		o = LIST_NEXT(o, with_id);
	return o == NULL || is_over(o) ? NULL : o;
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
	struct operation *o, *newest = NULL;

	for (o = LIST_FIRST(bucket(s->operations->by_key, key)); o != NULL;
	     o = LIST_NEXT(o, with_key)) {
		if (strcmp(o->key, key) == 0 && strcmp(o->session_id, session_id) == 0 &&
		    !o->refused && !is_over(o) && is_worth_giving_again(o) &&
		    (newest == NULL || o->number > newest->number))
			newest = o;
	}
	return newest;
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
		/* A body that is in memory only, or that there was no memory for, is not kept. */
		record.has_body = o->body != NULL && !o->in_memory;
		record.headers = o->headers != NULL ? o->headers : "";
		record.body = o->body;
		record.body_len = record.has_body ? o->len : 0;
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

	(void)fd;
	(void)what;
	for (o = TAILQ_FIRST(&s->operations->list); o != NULL; o = next) {
		next = TAILQ_NEXT(o, link);
		if (is_over(o))
			operation_forget(o);
	}
}

/* The session's step after it, as its answer told; 0: it told none. */
static uint64_t
step_of(const struct operation *o)
{
	static const char name[] = "Stepd-Step: ";
	const char *at = o->headers != NULL ? strstr(o->headers, name) : NULL;

	return at != NULL ? strtoull(at + sizeof(name) - 1, NULL, 10) : 0;
}

/* Steps that are to be sent again are not answered by what was kept of them. */
static void
on_went_back(struct stepd *s, const char *id, uint64_t step)
{
	struct operation *o, *next;

	for (o = TAILQ_FIRST(&s->operations->list); o != NULL; o = next) {
		next = TAILQ_NEXT(o, link);
		if (!o->answered || strcmp(o->session_id, id) != 0 || step_of(o) <= step)
			continue;
		if (o->done)
			operation_forget(o);
		else
			o->refused = true; /* forgotten when the store has it */
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
	s->sessions->went_back = on_went_back;
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
	s->sessions->went_back = NULL;
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
