#include "worker/loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ipc/channel.h"
#include "ipc/log.h"
#include "kernels/device.h"
#include "worker/last_words.h"
#include "worker/probe.h"
#include "worker/sandbox.h"
#include "worker/session.h"

struct loop {
	struct channel channel;
	struct session *session; /* NULL until OPEN */
	bool told_trouble;
};

/* The answer that a handler builds. */
struct answer {
	enum message_type type;
	struct wire_put body;
	int fd; /* -1 = none; closed after it was sent */
	char storage[4096];
};

/* 0 with *a filled, or -1 with *r filled (and perhaps a->fd: the JSON of the detail). */
typedef int handle_fn(struct loop *l, struct message *m, struct answer *a, struct refusal *r);

/* A message that does not decode comes from no stepd of this version. */
static int
undecodable(struct refusal *r)
{
	return refuse(r, 500, "the worker could not read a request of its supervisor");
}

/* The driver starts before anything that others wrote is read, and shows that it computes here. */
static int
start_device(struct refusal *r)
{
	char reason[256];
	enum op_status status = OP_OK;

	if (strcmp(device_backend(), "cpu") != 0)
		status = probe_device(0, reason, sizeof(reason));
	if (status == OP_NO_MEMORY) /* others have it: the device is none the worse */
		return refuse(r, 507, "the device has not enough memory: %s", reason);
	return status == OP_OK ? 0 : refuse(r, 503, "accelerator unavailable: %s", reason);
}

static int
handle_open(struct loop *l, struct message *m, struct answer *a, struct refusal *r)
{
	struct message_open settings;
	struct message_opened opened;

	if (l->session != NULL)
		return refuse(r, 409, "a training session is already active");
	if (message_get_open(&m->body, &settings) != 0)
		return undecodable(r);
	if (sandbox_files(settings.model_path, r) != 0 || start_device(r) != 0 ||
	    sandbox_close(r) != 0)
		return -1;
	if (session_open(&l->session, &settings, &opened, r) != 0)
		return -1;
	opened.sandbox = sandbox_text();
	a->type = MSG_OPENED;
	message_put_opened(&a->body, &opened);
	return 0;
}

static int
handle_load(struct loop *l, struct message *m, struct answer *a, struct refusal *r)
{
	struct message_artifact artifact;
	struct message_loaded loaded;

	if (message_get_artifact(&m->body, &artifact) != 0)
		return undecodable(r);
	if (session_load(l->session, artifact.kind, m->fd, &loaded, r) != 0)
		return -1;
	a->type = MSG_LOADED;
	message_put_loaded(&a->body, &loaded);
	return 0;
}

static int
handle_render(struct loop *l, struct message *m, struct answer *a, struct refusal *r)
{
	a->type = MSG_RENDERED;
	return session_render(l->session, m->fd, &a->fd, r);
}

static int
handle_datums(struct loop *l, struct message *m, struct answer *a, struct refusal *r)
{
	a->type = MSG_DATUMS_KEPT;
	return session_keep(l->session, m->fd, r);
}

static int
handle_train(struct loop *l, struct message *m, struct answer *a, struct refusal *r)
{
	struct message_train settings;
	struct message_trained trained;

	if (message_get_train(&m->body, &settings) != 0)
		return undecodable(r);
	if (session_train(l->session, &settings, m->fd, &trained, r) != 0)
		return -1;
	a->type = MSG_TRAINED;
	message_put_trained(&a->body, &trained);
	return 0;
}

static int
handle_save(struct loop *l, struct message *m, struct answer *a, struct refusal *r)
{
	struct message_artifact artifact;
	struct message_saved saved;

	if (message_get_artifact(&m->body, &artifact) != 0)
		return undecodable(r);
	if (session_save(l->session, artifact.kind, m->fd, &saved, r) != 0)
		return -1;
	a->type = MSG_SAVED;
	message_put_saved(&a->body, &saved);
	return 0;
}

static int
handle_verify(struct loop *l, struct message *m, struct answer *a, struct refusal *r)
{
	struct message_artifact artifact;
	struct message_verified verified;

	if (message_get_artifact(&m->body, &artifact) != 0)
		return undecodable(r);
	if (session_verify(l->session, artifact.kind, m->fd, &verified, r) != 0)
		return -1;
	a->type = MSG_VERIFIED;
	message_put_verified(&a->body, &verified);
	return 0;
}

static int
handle_generate(struct loop *l, struct message *m, struct answer *a, struct refusal *r)
{
	a->type = MSG_GENERATED;
	return session_generate(l->session, m->fd, &a->fd, r);
}

static int
handle_evaluate(struct loop *l, struct message *m, struct answer *a, struct refusal *r)
{
	a->type = MSG_EVALUATED;
	return session_evaluate(l->session, m->fd, &a->fd, r);
}

/* The requests: what each needs before its handler is called. */
static const struct request {
	enum message_type type;
	handle_fn *handle;
	bool session; /* an open session */
	bool fd;
} requests[] = {
    {MSG_OPEN, handle_open, false, false},
    {MSG_LOAD, handle_load, true, true},
    {MSG_RENDER, handle_render, true, true},
    {MSG_DATUMS, handle_datums, true, true},
    {MSG_TRAIN, handle_train, true, true},
    {MSG_SAVE, handle_save, true, true},
    {MSG_GENERATE, handle_generate, true, true},
    {MSG_EVALUATE, handle_evaluate, true, true},
    {MSG_VERIFY, handle_verify, true, true},
};

static const struct request *
find_request(enum message_type type)
{
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++)
		if (requests[i].type == type)
			return &requests[i];
	return NULL;
}

static int
handle(struct loop *l, struct message *m, struct answer *a, struct refusal *r)
{
	const struct request *request = find_request(m->type);

	if (request == NULL)
		return refuse(r, 500, "the worker knows no request %s", message_name(m->type));
	if (request->session && l->session == NULL)
		return refuse(r, 404, "training session not found");
	if (request->fd && m->fd < 0)
		return undecodable(r);
	return request->handle(l, m, a, r);
}

/* A device that failed takes the process with it: what it holds there is lost, and no answer that
   it may have had a part in is given. Not by exit: what CUDA does then waits for the device. */
static void
end_without_device(struct loop *l)
{
#define NAME(name, class) class,
	static const char *const classes[] = {NULL, DEVICE_FAULT_LIST(NAME)};
#undef NAME
	const char *text;
	enum device_fault fault = device_failed(&text);

	if (fault == DEVICE_SOUND)
		return;
	log_error("%s: %s", classes[fault], text);
	last_words_say(&l->channel, classes[fault], text);
	_exit(1);
}

/* Slower from now on, and no more than that. */
static void
tell_trouble(struct loop *l)
{
	const char *text = l->session != NULL ? session_trouble(l->session) : "";

	if (*text == '\0' || l->told_trouble)
		return;
	l->told_trouble = true;
	log_warning("steps go on without CUDA graphs: %s", text);
}

/* One request to one answer. 0 or -errno of the channel. */
static int
serve(struct loop *l, struct message *m)
{
	struct answer a = {.fd = -1};
	struct refusal r = {.status = 422};
	long len;
	int rc;

	wire_put_init(&a.body, a.storage, sizeof(a.storage));
	rc = handle(l, m, &a, &r);
	end_without_device(l);
	tell_trouble(l);
	if (rc != 0) {
		a.type = MSG_FAILED;
		message_put_failed(&a.body, &(struct message_failed){r.status, r.text});
	}
	if (m->fd >= 0)
		close(m->fd);
	len = wire_put_end(&a.body);
	if (len < 0)
		rc = (int)len;
	else
		rc = channel_send(&l->channel, a.type, m->request, a.storage, (size_t)len, a.fd);
	if (a.fd >= 0)
		close(a.fd);
	return rc;
}

static int
say_ready(struct loop *l)
{
	char storage[256];
	struct wire_put body;

	wire_put_init(&body, storage, sizeof(storage));
	message_put_ready(
	    &body, &(struct message_ready){MESSAGE_PROTOCOL, STEPD_VERSION, device_backend()});
	return channel_send(&l->channel, MSG_READY, 0, storage, body.len, -1);
}

int
loop_run(int fd)
{
	static struct loop loop;
	struct message m;
	int rc;

	channel_init(&loop.channel, fd);
	rc = say_ready(&loop);
	while (rc == 0) {
		rc = channel_recv(&loop.channel, &m);
		if (rc <= 0 || m.type == MSG_CLOSE)
			break;
		rc = serve(&loop, &m);
	}
	session_free(loop.session);
	channel_fini(&loop.channel);
	return rc < 0 ? rc : 0;
}
