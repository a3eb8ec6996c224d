/*
 * The one context of the program: what its parts share. Parts are started in the order of the table
 * in main.c and stopped in reverse.
 */
#ifndef SUPERVISOR_STEPD_H
#define SUPERVISOR_STEPD_H

#include <stdbool.h>
#include <stddef.h>

struct event_base;

enum { STEPD_LISTEN_FDS = 16 };

struct stepd {
	struct event_base *base;
	const struct config *config;
	int state_fd;			  /* the state folder, held by this process alone */
	bool handed_over;		  /* the listening sockets are those of systemd */
	int listen_fds[STEPD_LISTEN_FDS]; /* the HTTP server's to be */
	size_t listen_count;
	struct http_server *http;
	struct objects *objects;
	struct store *store;
	struct transfer *transfer;
	struct devices *devices;
	struct devices_again *devices_again; /* NULL: no GPU is wanted */
	struct sessions *sessions;
	struct operations *operations;
	struct status *status;
	struct notify *notify;
	struct events *events;
	/* what /healthz says; of GPUs as they were found last */
	struct {
		bool cuda_available, cuda_verified, active_session;
	} health;
	/* credentials.h */
	struct ssl_ctx_st *tls; /* NULL: plain HTTP */
	struct tokens *tokens;
	struct backoff *backoff;
	bool stopping;	      /* no new work is taken */
	bool hurrying;	      /* and nobody's is waited for any longer */
	double stop_deadline; /* monotonic seconds */
};

/* A part of the program. start: 0 or -errno after a line in the log. stop: begins to stop when
   first called, and says whether nothing is left to wait for; a part that finishes later calls
   stepd_stopped, and stop is asked again. After STEPD_STOP_TIMEOUT nobody waits any longer. free:
   releases everything, also of a part that did not start or did not finish stopping. stop may be
   NULL. */
struct stepd_part {
	const char *name;
	int (*start)(struct stepd *s);
	bool (*stop)(struct stepd *s);
	void (*free)(struct stepd *s);
};

void stepd_stopped(struct stepd *s);

#endif
