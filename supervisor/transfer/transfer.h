/*
 * Artifacts to and from the URLs that clients give: one PUT of a spool file, or one GET into a new
 * one. https only, no redirect followed, no proxy, TLS 1.2 or newer, certificates verified, only
 * addresses that egress.h allows, constant memory, every wait bounded. The digest is taken over the
 * very bytes that went over the wire. URLs of our own object store move no byte over the network.
 *
 * A URL is a secret: it is in memory only while its job lives, and in no log line or error.
 */
#ifndef SUPERVISOR_TRANSFER_TRANSFER_H
#define SUPERVISOR_TRANSFER_TRANSFER_H

#include <stdint.h>

struct config;
struct stepd;
struct transfer;
struct transfer_job;

/* -ETIMEDOUT a deadline, -EACCES the address or our own URL is refused, -EFBIG over the limit,
   -ENOSPC and other errors of the disk as they are, -EREMOTEIO everything else of the other side.
 */
struct transfer_result {
	int error;	    /* 0 or -errno */
	unsigned status;    /* HTTP, 0 = none came */
	const char *reason; /* for the log: a constant, without the URL */
	uint64_t size;	    /* bytes moved */
	char sha256[65];    /* of those bytes, set if error is 0 */
	int fd;		    /* a download: the file, read only; taken if set to -1, else closed */
};
typedef void transfer_done(void *ctx, struct transfer_result *result);

enum transfer_direction { TRANSFER_PUT, TRANSFER_GET };

/* Before anything starts: settings of transfers that cannot work. 0, or -EINVAL with a sentence. */
int transfer_check(const struct config *c, char reason[512]);
/* Parts of the program (stepd.h). */
int transfer_start(struct stepd *s);
void transfer_free(struct stepd *s);

/* Starts moving: a PUT of the whole file fd, not empty; or a GET of at most limit bytes (fd -1).
   Consumes fd, also on failure. done is called once from the loop, never from inside this call,
   unless the job is cancelled. The job, or NULL with no memory. */
struct transfer_job *transfer_begin(struct transfer *t, enum transfer_direction direction,
    const char *url, int fd, uint64_t limit, transfer_done *done, void *ctx);
/* Forgets a job without calling done. NULL is allowed. */
void transfer_cancel(struct transfer_job *job);

#endif
