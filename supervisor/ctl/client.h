/*
 * stepctl's side of the HTTP contract: JSON calls with the token, and files to and from signed
 * URLs. It speaks to a service as any client does and knows nothing that the contract does not say.
 */
#ifndef SUPERVISOR_CTL_CLIENT_H
#define SUPERVISOR_CTL_CLIENT_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ipc/json.h"
#include "supervisor/ctl/options.h"

struct client;

/* The answer to a call. */
struct reply {
	long status;
	unsigned retry_after; /* seconds until the same is worth sending again; 0: not told */
	struct json_doc *doc; /* NULL if the body is no JSON */
};

/* url: https://host[:port], no path. ca: PEM file to trust, or NULL. Copies all three. NULL: no
   memory. */
struct client *client_new(const char *url, const char *token, const char *ca);
/* By the service options of a verb and the environment: the client, or NULL after a line on stderr.
 */
struct client *client_from_options(const struct ctl_arguments *a);
void client_free(struct client *c);

/* How long a call goes on trying where a service that has answered once is away, or says that the
   same is worth sending again: for each outage, until *stop (or NULL) is not 0. None at first. */
void client_patience(struct client *c, unsigned seconds, const volatile sig_atomic_t *stop);

/* An Idempotency-Key that nobody else has. */
enum { CLIENT_KEY_MAX = 64 };
void client_key(struct client *c, char key[CLIENT_KEY_MAX]);

/* One call; body is JSON text or NULL. However often it is sent, it has one key, so it is done
   once. 0 with *r whatever the status (reply_fini it), or CTL_UNREACHABLE after a line on stderr.
 */
int client_call(
    struct client *c, const char *method, const char *path, const char *body, struct reply *r);
/* The same with the key of an earlier call: where that was done, its answer comes. */
int client_call_again(struct client *c, const char *key, const char *method, const char *path,
    const char *body, struct reply *r);
/* client_call, and anything but a 2xx is reported on stderr as CTL_REFUSED. `doing` begins the
   line: "opening the session". */
int client_expect(struct client *c, const char *doing, const char *method, const char *path,
    const char *body, struct reply *r);
void reply_fini(struct reply *r);
struct json reply_json(const struct reply *r);
/* Prints the service's words on stderr. */
void reply_print(const struct reply *r, const char *doing);

/* Puts a file to a signed URL, or gets one into a new file (through a temporary name). The digest
   is of the bytes that passed. 0, CTL_UNREACHABLE, CTL_REFUSED or CTL_FAILED after a line on stderr
   that does not hold the URL. */
int client_put_file(struct client *c, const char *url, const char *path);
int client_get_file(struct client *c, const char *url, const char *path, char sha256[65]);

#endif
