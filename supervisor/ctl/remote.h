/*
 * A training session seen from the client: the calls of the trainer contract that `stepctl train`
 * and `stepctl generate` make, each as one function that reports its own failures.
 */
#ifndef SUPERVISOR_CTL_REMOTE_H
#define SUPERVISOR_CTL_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/ctl/client.h"
#include "supervisor/ctl/rows.h"

struct remote {
	struct client *client;
	char id[129]; /* "" = no session */
	uint64_t step;
	double last_loss;
	const struct rows *rows; /* that were rendered; the caller's */
	char **datum_ids;	 /* (count), of the rows in order; owned */
	size_t count;
};

struct remote_options {
	const char *model;
	uint64_t rank, seed;
	uint64_t max_tokens; /* 0 = no limit */
	const char *resume;  /* a state file here, or NULL */
	const char *adapter; /* a sampling archive here, or NULL; not both */
};

struct remote_result {
	double loss, gradient_norm;
	uint64_t input_tokens, supervised_tokens;
};

/* All return 0 or an enum ctl_exit after lines on stderr. */
int remote_open(struct remote *r, const struct remote_options *o);
/* Renders every row; a row that is refused is named by file and line. The rows stay until the
   session is closed: a service that was started again may have to be given them again. */
int remote_render(struct remote *r, const struct rows *rows);
/* A call of the session, done once whatever happens to the connection; where the service needs the
   rows before it again, they are rendered again. A reply of 200 is the caller's to end. `doing`
   begins the line of another one. */
int remote_post(
    struct remote *r, const char *doing, const char *call, const char *body, struct reply *reply);
/* One step over the rows named by index, done once whatever happens to the connection. */
int remote_train(struct remote *r, const size_t *rows, size_t count, double learning_rate,
    struct remote_result *out);
/* Has the artifact ("state" or "sampling") saved into the service's object store and fetches it to
   path; the digest the service told must be that of the bytes that came. */
int remote_save(struct remote *r, const char *kind, const char *path);
/* Closes the session; force also with steps that no save holds. */
int remote_close(struct remote *r, bool force);
void remote_fini(struct remote *r);

#endif
