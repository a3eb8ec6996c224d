/*
 * One worker process: started with nothing but a socket, watched by its pidfd, ended by TERM and
 * then KILL. "Started" and "ready" are two facts: ready is said by the worker itself.
 *
 * Everything is called back from the event loop and never from inside child_start or child_end. No
 * wait is without a deadline: being ready has one from the start, dying has one from child_end, and
 * every request has the one that child_send gives it.
 */
#ifndef SUPERVISOR_SESSION_CHILD_H
#define SUPERVISOR_SESSION_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "ipc/channel.h"
#include "supervisor/session/child_end.h"
#include "supervisor/session/child_group.h"

struct child;
struct event_base;

/* A dead worker. Texts are views, valid during the call. */
struct child_death {
	enum child_class class;
	int signal, exit_status; /* one of them; the other is -1 */
	const char *words;	 /* its last words, "" = none */
};

struct child_events {
	/* It can take requests. */
	void (*ready)(void *ctx, const struct message_ready *ready);
	/* The answer to the request under way. m->fd is taken if set to -1, else closed. A non-zero
	   return says that the body does not decode: the worker is ended for it. */
	int (*answer)(void *ctx, struct message *m);
	/* It is gone and reaped; its last answers came before. The child is freed after the
	   call. */
	void (*died)(void *ctx, const struct child_death *death);
};

struct child_options {
	const char *program;
	unsigned ready_seconds; /* to say READY */
	unsigned end_seconds;	/* from TERM to KILL */
	uint64_t memory;	/* bytes that it may use, 0 = no limit */
	const char *gpu;	/* the UUID of the one that it sees, or NULL */
	const char *gpu_bus;	/* where it is, or NULL */
	uid_t uid; /* whom it becomes where it starts as the superuser; 0: nobody else */
	gid_t gid;
};

/* Starts a worker. 0 or -errno. */
int child_start(struct child **out, struct event_base *base, const struct child_options *options,
    const struct child_events *events, void *ctx);
pid_t child_pid(const struct child *c);
struct child_memory child_memory(const struct child *c);

/* Sends a request, to be answered within `seconds`; one at a time. Does not consume fd. 0, -EBUSY
   (one is under way), -EPIPE (it is ending or gone; died follows), or -errno. */
int child_send(struct child *c, enum message_type type, const void *body, size_t len, int fd,
    unsigned seconds);
/* Its session is over: sends CLOSE where it is idle, else TERM; KILL after the deadline. died
   follows. May be called again. */
void child_end(struct child *c);
/* Kills and reaps at once, without a callback: for the end of the program. NULL is allowed. */
void child_free(struct child *c);

#endif
