/*
 * libcurl's multi interface driven by the event loop: no transfer ever blocks it.
 */
#ifndef SUPERVISOR_TRANSFER_TRANSFER_LOOP_H
#define SUPERVISOR_TRANSFER_TRANSFER_LOOP_H

#include <curl/curl.h>
#include <stddef.h>

struct event;
struct event_base;

/* More that are lost in one turn end by their deadlines. */
enum { TRANSFERS_LOST = 16 };

struct transfer_loop {
	CURLM *multi;
	struct event_base *base;
	struct event *timer;
	struct event *tick; /* every second while transfers run: no deadline depends on memory */
	size_t running;
	CURL *lost[TRANSFERS_LOST]; /* their sockets could not be watched */
	size_t lost_count;
	/* A transfer ended. priv: the handle's CURLOPT_PRIVATE. Called from the loop, outside of
	   libcurl; the handle is out of the multi by then. */
	void (*done)(void *priv, CURLcode code);
};

/* 0 or -ENOMEM. On failure transfer_loop_fini is still owed. */
int transfer_loop_init(
    struct transfer_loop *t, struct event_base *base, void (*done)(void *priv, CURLcode code));
void transfer_loop_fini(struct transfer_loop *t);
/* Starts and stops a transfer; stop does not call done. 0 or -EIO. */
int transfer_loop_add(struct transfer_loop *t, CURL *easy);
void transfer_loop_remove(struct transfer_loop *t, CURL *easy);

#endif
