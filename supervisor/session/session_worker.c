/* The worker of a session: what it says becomes events. */
#include <errno.h>
#include <string.h>

#include "ipc/log.h"
#include "supervisor/settings/config.h"
#include "supervisor/session/session_action.h"
#include "supervisor/session/sessions.h"
#include "supervisor/stepd.h"

static void
on_ready(void *ctx, const struct message_ready *ready)
{
	struct session_input in = {0};

	(void)ready;
	session_event(ctx, EV_STARTED, &in);
}

/* A GPU that its worker cannot use is looked at when it is given back. */
static void
doubt(struct session *s)
{
	if (s->slot != NULL && s->slot->kind == SLOT_GPU)
		s->slot->doubted = true;
}

static int
on_answer(void *ctx, struct message *m)
{
	struct session_input in = {.answer = m};
	struct message_failed failed;

	if (m->type != MSG_FAILED) {
		session_event(ctx, EV_ANSWER, &in);
		return in.error;
	}
	if (message_get_failed(&m->body, &failed) != 0 || failed.status < 400 ||
	    failed.status > 599)
		return -EBADMSG;
	in.failed = &failed;
	/* Its device, for all that it knows. */
	if (failed.status == 503)
		doubt(ctx);
	session_event(ctx, EV_REFUSED, &in);
	return in.error;
}

static void
on_died(void *ctx, const struct child_death *death)
{
	struct session_input in = {.death = death};
	struct session *s = ctx;

	s->child = NULL;
	if (child_class_remedy(death->class) == REMEDY_PROBE && s->slot->kind == SLOT_GPU)
		s->slot->failed = true;
	s->ends[death->class] += death->class != CHILD_CLEAN;
	s->ended = child_class_name(death->class);
	snprintf(s->record.reason, sizeof(s->record.reason), "%s", child_class_text(death->class));
	session_event(s, EV_DIED, &in);
}

static void
tell_started(const struct session *s)
{
	struct child_memory m = child_memory(s->child);
	char text[96] = "";

	if (m.limit > 0)
		snprintf(text, sizeof(text), ", memory held to %llu bytes by %s",
		    (unsigned long long)m.limit, child_bound_name(m.bound));
	log_info("session %s: worker %d on %s%s", s->record.id, (int)child_pid(s->child),
	    s->slot->device, text);
}

int
session_start_worker(struct session *s)
{
	static const struct child_events events = {on_ready, on_answer, on_died};
	const struct config *c = s->stepd->config;
	bool gpu = s->slot->kind == SLOT_GPU;
	struct child_options options = {.program = gpu ? c->worker_cuda : c->worker,
	    .gpu = gpu ? s->slot->device : NULL,
	    .gpu_bus = gpu && s->slot->bus[0] != '\0' ? s->slot->bus : NULL,
	    .ready_seconds = (unsigned)c->ready_timeout,
	    .end_seconds = (unsigned)c->end_timeout,
	    .memory = c->worker_memory,
	    .uid = c->worker_uid,
	    .gid = c->worker_gid};
	int error = child_start(&s->child, s->stepd->base, &options, &events, s);

	if (error != 0)
		log_error("the worker %s does not start: %s", options.program, strerror(-error));
	else
		tell_started(s);
	return error;
}

void
session_ask(struct session *s, enum message_type type, const void *body, size_t len, int fd,
    uint64_t seconds)
{
	int error = child_send(s->child, type, body, len, fd, (unsigned)seconds);

	/* A worker that is going says so by itself (DIED); one that cannot be asked has to go. */
	if (error != 0 && error != -EPIPE) {
		log_error("session %s: asking the worker: %s", s->record.id, strerror(-error));
		child_end(s->child);
	}
}

void
session_ask_artifact(
    struct session *s, enum message_type type, uint8_t kind, int fd, uint64_t seconds)
{
	uint8_t storage[16];
	struct wire_put w;

	wire_put_init(&w, storage, sizeof(storage));
	message_put_artifact(&w, &(struct message_artifact){kind});
	session_ask(s, type, storage, w.len, fd, seconds);
}

void
session_ask_step(struct session *s, double learning_rate, uint64_t step, int fd)
{
	uint8_t storage[64];
	struct wire_put w;

	wire_put_init(&w, storage, sizeof(storage));
	message_put_train(&w, &(struct message_train){learning_rate, step});
	session_ask(s, MSG_TRAIN, storage, w.len, fd, s->stepd->config->train_timeout);
}
