/*
 * Operations: calls whose client prefers not to wait (Prefer: respond-async). The handler of the
 * call runs as ever, on a request without a client; what it answers becomes the operation's answer,
 * which GET /v1/operations/{id} gives with its status, headers and body.
 *
 * An operation is in the store before its client is told of it, its answer before anybody can read
 * it. It has an Idempotency-Key, the client's or one that no client can send, so what was done is
 * found again after a restart; what was not done is begun again where the store has all that it
 * needs (steps, closing), else it is answered with a 503 that says to send it again.
 */
#ifndef SUPERVISOR_API_OPERATIONS_H
#define SUPERVISOR_API_OPERATIONS_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "supervisor/api/operation_record.h"
#include "supervisor/http/http.h"
#include "supervisor/session/session_record.h"
#include "supervisor/stepd.h"

struct session_request;

enum {
	OPERATIONS_MAX = 10000,		      /* the oldest that are done are forgotten */
	OPERATIONS_MEMORY = 64 * 1024 * 1024, /* bytes of answers that the store does not have */
	OPERATION_FILE_MIN = 1024 * 1024,     /* bytes; a larger answer has a descriptor */
	OPERATION_BUCKETS = 1024,
	OPERATION_WAIT_MAX = 300, /* seconds */
};

/* Somebody who waits for it. */
struct operation_waiter {
	LIST_ENTRY(operation_waiter) link;
	struct operation *operation;
	struct http_request *http;
	struct event *timer; /* NULL: it waits for the 202 of Prefer */
};

struct operation {
	TAILQ_ENTRY(operation) link;
	LIST_ENTRY(operation) with_id, with_key; /* in their buckets */
	struct stepd *stepd;
	char id[OPERATION_ID_SIZE], session_id[SESSION_ID_SIZE], call[OPERATION_CALL_SIZE];
	char *key;
	uint8_t digest[KEPT_DIGEST];
	uint64_t number;
	int64_t at;
	/* operation_describe */
	uint8_t kind;
	double learning_rate;
	bool force;
	void *ids;
	size_t ids_len;

	bool text;		   /* its answer may hold text, and stays in memory */
	bool handling;		   /* its handler is on the stack */
	bool accepted;		   /* the store has it */
	bool refused;		   /* the store does not: who waits gets the answer itself */
	bool resumed;		   /* asked for again after a restart */
	bool answered, done;	   /* there is an answer, and it may be told */
	struct http_request *http; /* without a client; NULL once it is answered */
	LIST_HEAD(, operation_waiter) waiters;
	/* the answer */
	unsigned status;
	char *headers, *body; /* body NULL: in fd, or gone */
	int fd;
	size_t len;
	bool in_memory; /* counted as memory */
};

struct operations {
	TAILQ_HEAD(operation_list, operation) list; /* the oldest first */
	LIST_HEAD(operation_bucket, operation) by_id[OPERATION_BUCKETS], by_key[OPERATION_BUCKETS];
	size_t count;
	uint64_t next_number;
	size_t memory;
	struct event *sweep;
};

/* A part of the program. */
int operations_start(struct stepd *s);
bool operations_stop(struct stepd *s);
void operations_free(struct stepd *s);

/* operations.c */
/* A new operation, last in the list. `id` NULL chooses one; `key` is copied, NULL gives it one of
   its own. NULL: no memory, or too many that are not done. */
struct operation *operation_new(struct stepd *s, const char *id, const char *key);
/* Out of the list, and frees it with its request; the store keeps it. */
void operation_free(struct operation *o);
/* The same, and out of the store. */
void operation_forget(struct operation *o);
struct operation *operations_find(struct stepd *s, const char *id);
/* The newest of a session ("" = of none) with that key that is under way or went well. */
struct operation *operations_find_key(struct stepd *s, const char *session_id, const char *key);
/* Writes it to the store, its answer too where it has one. 0 or -errno, then done is not called. */
int operation_keep(struct operation *o, void (*done)(void *ctx, int error));

/* operation_answer.c */
/* Takes a copy of the answer. */
void operation_take_answer(struct operation *o, const struct http_answer *answer);
void operation_drop_body(struct operation *o);
/* Answers as the call would have been answered. */
void operation_reply_answer(struct operation *o, struct http_request *r);
/* Answers that it is under way: 202, with what is known. */
void operation_reply_accepted(struct operation *o, struct http_request *r);

/* operation_run.c */
/* Does the client prefer not to wait? */
bool operation_wanted(const struct http_request *r);
/* Handles a request as an operation; `text`: its answer may hold text. */
void operation_run(struct stepd *s, struct http_request *r, const char *call, bool text,
    void (*handle)(struct stepd *s, struct http_request *r));
/* A request without a client whose answer becomes the operation's. NULL: no memory. */
struct http_request *operation_request(struct operation *o);
/* The operation of a request without a client, or NULL. */
struct operation *operation_of(const struct http_request *r);
/* What a session is going to be asked, before it is: where that is an operation, it keeps what it
   needs to ask again. */
void operation_describe(const struct session_request *request);

/* operation_wait.c */
/* Lets somebody wait for the answer, for `seconds` at most; negative: for the 202. */
void operation_wait(struct operation *o, struct http_request *r, double seconds);
/* Answers those who wait for the 202; everybody, with what there is. */
void operation_tell_accepted(struct operation *o);
void operation_wake(struct operation *o);

/* operation_resume.c: reads the store, and goes on with what was not done. 0 or -errno. */
int operations_resume(struct stepd *s);

/* GET /v1/operations/{id} */
void api_operation_get(struct stepd *s, struct http_request *r);

#endif
