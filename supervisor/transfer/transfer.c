#include "supervisor/transfer/transfer.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <stdbool.h>
#include <stdio.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/settings/config.h"
#include "supervisor/transfer/file_digest.h"
#include "supervisor/store/objects.h"
#include "supervisor/store/spool.h"
#include "supervisor/stepd.h"
#include "supervisor/transfer/transfer_http.h"
#include "supervisor/transfer/transfer_loop.h"

struct transfer {
	struct stepd *stepd;
	struct transfer_loop loop;
	struct egress egress;
	struct transfer_limits limits;
	char *spool; /* the folder of downloads */
	struct transfer_job *jobs;
};

struct transfer_job {
	struct transfer *transfer;
	struct transfer_job *next, **link; /* of transfer->jobs */
	enum transfer_direction direction;
	int fd;
	transfer_done *done; /* NULL: nobody waits any more */
	void *ctx;
	struct transfer_result result;
	/* over the network */
	struct transfer_http http;
	bool in_loop;
	/* within this machine */
	struct object_ref object;
	struct file_digest *digest;
	bool with_objects; /* objects_put is under way */
	struct event *later;
};

static void
job_unlink(struct transfer_job *job)
{
	if (job->link != NULL)
		*job->link = job->next;
	if (job->next != NULL)
		job->next->link = job->link;
	job->link = NULL;
	job->next = NULL;
}

static void
job_free(struct transfer_job *job)
{
	if (job->in_loop)
		transfer_loop_remove(&job->transfer->loop, job->http.easy);
	transfer_http_fini(&job->http);
	file_digest_cancel(job->digest);
	if (job->later != NULL)
		event_free(job->later);
	if (job->fd >= 0)
		close(job->fd);
	job_unlink(job);
	free(job);
}

/* The object store has the file and calls back: then the job frees itself, telling nobody. */
static bool
job_abandon(struct transfer_job *job)
{
	if (!job->with_objects)
		return false;
	job_unlink(job);
	job->done = NULL;
	return true;
}

static void
job_finish(struct transfer_job *job)
{
	struct transfer_result result = job->result;
	transfer_done *done = job->done;
	void *ctx = job->ctx;

	result.fd = -1;
	if (result.error == 0 && job->direction == TRANSFER_GET) {
		result.fd = spool_read_only(job->fd);
		if (result.fd < 0) {
			result.error = result.fd;
			result.reason = "the spool file does not open";
			result.fd = -1;
		}
	}
	job_free(job);
	if (done != NULL)
		done(ctx, &result);
	if (result.fd >= 0)
		close(result.fd);
}

static void
job_fail(struct transfer_job *job, int error, const char *reason)
{
	job->result.error = error;
	job->result.reason = reason;
	job_finish(job);
}

static void
on_curl_done(void *priv, CURLcode code)
{
	struct transfer_job *job = priv;

	job->in_loop = false;
	transfer_http_result(&job->http, code, &job->result);
	job_finish(job);
}

static void
on_object_put(void *ctx, int error)
{
	struct transfer_job *job = ctx;

	if (error != 0)
		job_fail(job, error, "the object store refused the object");
	else
		job_finish(job);
}

static void
on_digest(void *ctx, int error, uint64_t size, const char *hex)
{
	struct transfer_job *job = ctx;
	int fd = job->fd;

	job->digest = NULL;
	job->result.size = size;
	memcpy(job->result.sha256, hex, sizeof(job->result.sha256));
	if (error != 0) {
		job_fail(job, error, "the file could not be read");
	} else if (job->direction == TRANSFER_GET) {
		job_finish(job);
	} else {
		job->fd = -1;
		job->with_objects = true;
		objects_put(job->transfer->stepd, &job->object, fd, on_object_put, job);
	}
}

static void
on_later(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	job_finish(arg);
}

/* Ends the job with an error in the next turn of the loop. 0 or -ENOMEM. */
static int
fail_later(struct transfer_job *job, int error, const char *reason)
{
	static const struct timeval now = {0, 0};

	job->result.error = error;
	job->result.reason = reason;
	job->later = evtimer_new(job->transfer->stepd->base, on_later, job);
	return job->later == NULL || evtimer_add(job->later, &now) != 0 ? -ENOMEM : 0;
}

/* A URL of our own object store: nothing goes over the network. */
static int
begin_local(struct transfer_job *job, uint64_t limit)
{
	struct stepd *s = job->transfer->stepd;
	uint64_t size = 0;

	if (job->direction == TRANSFER_GET) {
		job->fd = objects_open(s, &job->object, &size);
		if (job->fd < 0)
			return fail_later(job, job->fd, "no such object");
		if (size > limit)
			return fail_later(job, -EFBIG, "the object is too large");
	}
	job->digest = file_digest_begin(s->base, job->fd, on_digest, job);
	return job->digest == NULL ? -ENOMEM : 0;
}

static int
begin_http(struct transfer_job *job, const char *url, uint64_t limit)
{
	struct transfer *t = job->transfer;
	int64_t size;
	int error;

	if (job->direction == TRANSFER_GET) {
		job->fd = spool_new(t->spool);
		if (job->fd < 0)
			return fail_later(job, job->fd, "the spool file cannot be made");
	} else {
		size = spool_size(job->fd);
		if (size <= 0)
			return fail_later(job, -EIO, "there is nothing to send");
		limit = (uint64_t)size;
	}
	error = transfer_http_init(
	    &job->http, job->direction, url, job->fd, limit, &t->egress, &t->limits, job);
	if (error == -EINVAL)
		return fail_later(job, -EREMOTEIO, "the URL cannot be used");
	if (error != 0)
		return error;
	error = transfer_loop_add(&t->loop, job->http.easy);
	job->in_loop = error == 0;
	return error;
}

struct transfer_job *
transfer_begin(struct transfer *t, enum transfer_direction direction, const char *url, int fd,
    uint64_t limit, transfer_done *done, void *ctx)
{
	struct transfer_job *job = calloc(1, sizeof(*job));
	int own = 0, error;

	if (job == NULL) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	*job = (struct transfer_job){.transfer = t, .direction = direction, .fd = fd, .done = done};
	job->ctx = ctx;
	job->next = t->jobs;
	job->link = &t->jobs;
	if (job->next != NULL)
		job->next->link = &job->next;
	t->jobs = job;
	if (t->stepd->objects != NULL) {
		own = objects_resolve(t->stepd, url,
		    direction == TRANSFER_PUT ? OBJECT_PUT : OBJECT_GET, &job->object);
	}
	if (own < 0)
		error = fail_later(job, own, "a URL of this object store that is not valid");
	else
		error = own > 0 ? begin_local(job, limit) : begin_http(job, url, limit);
	if (error != 0) {
		job_free(job);
		return NULL;
	}
	return job;
}

void
transfer_cancel(struct transfer_job *job)
{
	if (job != NULL && !job_abandon(job))
		job_free(job);
}

/* Certificates in PEM, at least one. */
static bool
holds_certificates(const char *path)
{
	X509_STORE *store = X509_STORE_new();
	bool good = store != NULL && X509_STORE_load_file(store, path) == 1;

	X509_STORE_free(store);
	ERR_clear_error();
	return good;
}

int
transfer_check(const struct config *c, char reason[512])
{
	struct egress egress = {0};
	char bad[256];
	int rc = egress_init(&egress, c->egress_allow, bad, sizeof(bad));

	egress_fini(&egress);
	if (rc == -EINVAL) {
		snprintf(
		    reason, 512, "STEPD_EGRESS_ALLOW: \"%s\" is no host, address or network", bad);
		return -EINVAL;
	}
	if (c->ca_file == NULL || holds_certificates(c->ca_file))
		return 0;
	snprintf(reason, 512, "STEPD_CA_FILE %s: %.400s",
	    access(c->ca_file, R_OK) != 0 ? "cannot be read" : "holds no certificates", c->ca_file);
	return -EINVAL;
}

int
transfer_start(struct stepd *s)
{
	const struct config *c = s->config;
	struct transfer *t = calloc(1, sizeof(*t));
	int error;

	if (t == NULL)
		return -ENOMEM;
	s->transfer = t;
	t->stepd = s;
	t->limits = (struct transfer_limits){.ca_file = c->ca_file,
	    .connect_seconds = (long)c->connect_timeout,
	    .stall_seconds = (long)c->stall_timeout,
	    .total_seconds = (long)c->transfer_timeout};
	error = egress_init(&t->egress, c->egress_allow, NULL, 0);
	if (error == 0 && asprintf(&t->spool, "%s/spool", c->state_dir) < 0) {
		t->spool = NULL;
		error = -ENOMEM;
	}
	if (error == 0) {
		error = spool_prepare(t->spool);
		if (error != 0)
			log_error("the folder spool in STEPD_STATE_DIR: %s", strerror(-error));
	}
	if (error == 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		error = -ENOMEM;
	return error != 0 ? error : transfer_loop_init(&t->loop, s->base, on_curl_done);
}

void
transfer_free(struct stepd *s)
{
	struct transfer *t = s->transfer;

	if (t == NULL)
		return;
	while (t->jobs != NULL)
		transfer_cancel(t->jobs);
	transfer_loop_fini(&t->loop);
	egress_fini(&t->egress);
	free(t->spool);
	free(t);
	s->transfer = NULL;
}
