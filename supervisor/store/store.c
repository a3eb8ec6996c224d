#include "supervisor/store/store.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "ipc/log.h"
#include "ipc/monotonic.h"
#include "supervisor/store/store_env.h"
#include "supervisor/thread.h"

enum {
	KEY_LIMIT = 511, /* LMDB's */
	/* What a change takes beside its bytes: copies of the pages on the way to them, in each
	   table. */
	ROOM = 128 * 1024,
};

struct change {
	struct change *next;
	void (*done)(void *ctx, int error);
	void *ctx;
	int error;
	double queued; /* monotonic seconds */
	size_t room;   /* bytes that the disk has to have beside it; 0: what there is */
	size_t count;
	struct store_write writes[]; /* keys and data follow in the same allocation */
};

struct queue {
	struct change *first, **last;
};

struct store {
	struct store_env env;
	struct event *wake; /* on wake_fd: changes are done */
	int wake_fd;
	pthread_t thread;
	bool running; /* the thread was started */
	pthread_mutex_t lock;
	pthread_cond_t work;
	/* under lock: */
	struct queue waiting, finished;
	bool busy, closing;
	double busy_since; /* when the oldest change under way was queued */
	size_t unfinished;
};

static void
queue_init(struct queue *q)
{
	q->first = NULL;
	q->last = &q->first;
}

static void
queue_add(struct queue *q, struct change *c)
{
	c->next = NULL;
	*q->last = c;
	q->last = &c->next;
}

static struct change *
queue_take_all(struct queue *q)
{
	struct change *all = q->first;

	queue_init(q);
	return all;
}

static void
free_all(struct change *c)
{
	while (c != NULL) {
		struct change *next = c->next;

		free(c);
		c = next;
	}
}

/* Commits the changes from c up to end (not with it) in one transaction. */
static int
commit(struct store *s, const struct change *c, const struct change *end)
{
	MDB_txn *txn;
	size_t room = 0;
	int error;

	for (const struct change *at = c; at != end; at = at->next)
		room += at->room;
	error = store_env_is_there(&s->env);
	if (error == 0 && room > 0)
		error = store_env_reserve(&s->env, room);
	if (error == 0)
		error = store_env_begin(&s->env, &txn);
	if (error != 0)
		return error;
	for (; error == 0 && c != end; c = c->next)
		error = store_env_apply(&s->env, txn, c->writes, c->count);
	if (error != 0) {
		mdb_txn_abort(txn);
		return error;
	}
	return store_env_commit(txn);
}

static void *
writer(void *arg)
{
	struct store *s = arg;
	uint64_t one = 1;

	/* by itself: from another thread it would take writing a file of /proc */
	pthread_setname_np(pthread_self(), "store");
	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct change *all, *next;
		int error;

		while (s->waiting.first == NULL && !s->closing)
			pthread_cond_wait(&s->work, &s->lock);
		all = queue_take_all(&s->waiting);
		if (all == NULL)
			break;
		s->busy = true;
		s->busy_since = all->queued;
		pthread_mutex_unlock(&s->lock);
		error = commit(s, all, NULL);
		for (struct change *c = all; c != NULL; c = c->next) {
			/* One bad change must not take its neighbours with it. */
			c->error = error != 0 && all->next != NULL ? commit(s, c, c->next) : error;
		}
		pthread_mutex_lock(&s->lock);
		s->busy = false;
		for (; all != NULL; all = next) {
			next = all->next;
			s->unfinished--;
			queue_add(&s->finished, all);
		}
		if (write(s->wake_fd, &one, sizeof(one)) < 0) {
			/* The counter is full: the loop has been told. */
		}
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct store *s = arg;
	struct change *all, *next;
	uint64_t count;

	(void)what;
	if (read(fd, &count, sizeof(count)) < 0)
		return;
	pthread_mutex_lock(&s->lock);
	all = queue_take_all(&s->finished);
	pthread_mutex_unlock(&s->lock);
	for (; all != NULL; all = next) {
		next = all->next;
		if (all->error != 0)
			log_error("the store could not keep a record: %s", strerror(-all->error));
		if (all->done != NULL)
			all->done(all->ctx, all->error);
		free(all);
	}
}

int
store_open(struct store **out, struct event_base *base, const char *folder)
{
	struct store *s = calloc(1, sizeof(*s));
	int error;

	*out = NULL;
	if (s == NULL)
		return -ENOMEM;
	queue_init(&s->waiting);
	queue_init(&s->finished);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = s->wake_fd < 0 ? -errno : store_env_open(&s->env, folder);
	if (error == 0) {
		s->wake = event_new(base, s->wake_fd, EV_READ | EV_PERSIST, on_wake, s);
		error = s->wake == NULL || event_add(s->wake, NULL) != 0 ? -ENOMEM : 0;
	}
	if (error == 0) {
		error = thread_start(&s->thread, writer, s);
		s->running = error == 0;
	}
	if (error != 0) {
		store_close(s);
		return error;
	}
	*out = s;
	return 0;
}

void
store_close(struct store *s)
{
	if (s == NULL)
		return;
	if (s->running) {
		pthread_mutex_lock(&s->lock);
		s->closing = true;
		pthread_cond_signal(&s->work);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
	}
	free_all(queue_take_all(&s->waiting));
	free_all(queue_take_all(&s->finished));
	if (s->wake != NULL)
		event_free(s->wake);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	store_env_close(&s->env);
	pthread_cond_destroy(&s->work);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int
commit_later(struct store *s, const struct store_write *writes, size_t count, bool begun,
    void (*done)(void *ctx, int error), void *ctx)
{
	size_t room = sizeof(struct change) + count * sizeof(*writes);
	struct change *c;
	uint8_t *at;

	for (size_t i = 0; i < count; i++) {
		if (writes[i].key_len == 0 || writes[i].key_len > KEY_LIMIT)
			return -EINVAL;
		room += writes[i].key_len + writes[i].len;
	}
	c = malloc(room);
	if (c == NULL)
		return -ENOMEM;
	*c = (struct change){
	    .done = done, .ctx = ctx, .queued = monotonic_seconds(), .count = count};
	if (begun)
		c->room = ROOM + 2 * room;
	at = (uint8_t *)(c->writes + count);
	for (size_t i = 0; i < count; i++) {
		c->writes[i] = writes[i];
		c->writes[i].key = memcpy(at, writes[i].key, writes[i].key_len);
		at += writes[i].key_len;
		if (writes[i].data != NULL) {
			c->writes[i].data = memcpy(at, writes[i].data, writes[i].len);
			at += writes[i].len;
		}
	}
	pthread_mutex_lock(&s->lock);
	queue_add(&s->waiting, c);
	s->unfinished++;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

int
store_commit(struct store *s, const struct store_write *writes, size_t count,
    void (*done)(void *ctx, int error), void *ctx)
{
	return commit_later(s, writes, count, false, done, ctx);
}

int
store_commit_begun(struct store *s, const struct store_write *writes, size_t count,
    void (*done)(void *ctx, int error), void *ctx)
{
	return commit_later(s, writes, count, true, done, ctx);
}

int
store_facts(struct store *s, struct store_facts *out)
{
	double oldest = 0;

	*out = (struct store_facts){0};
	pthread_mutex_lock(&s->lock);
	out->changes = s->unfinished;
	if (s->busy)
		oldest = s->busy_since;
	else if (s->waiting.first != NULL)
		oldest = s->waiting.first->queued;
	pthread_mutex_unlock(&s->lock);
	if (oldest > 0)
		out->oldest_seconds = monotonic_seconds() - oldest;
	return store_env_facts(&s->env, out);
}

void
store_set_sync(struct store *s, bool sync)
{
	store_env_set_sync(&s->env, sync);
}

int
store_get(struct store *s, enum store_table table, const void *key, size_t key_len, void **data,
    size_t *len)
{
	return store_env_get(&s->env, table, key, key_len, data, len);
}

int
store_each(struct store *s, enum store_table table,
    int (*each)(void *ctx, const void *key, size_t key_len, const void *data, size_t len),
    void *ctx)
{
	return store_env_each(&s->env, table, each, ctx);
}
