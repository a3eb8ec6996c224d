/*
 * A session's artifacts: its state and its adapter, written to and read from files.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "worker/session_state.h"
#include "worker/artifact/sampling.h"

/* Host copies of the adapter's values and moments: one allocation, three parts. */
struct copies {
	float *param, *exp_avg, *exp_avg_sq;
};

static int
copies_init(struct copies *c, const struct session *s, struct refusal *r)
{
	size_t n = trainer_adapter(s->trainer)->size;

	*c = (struct copies){0};
	c->param = calloc(n, 3 * sizeof(float));
	if (c->param == NULL)
		return refuse(r, 507, "out of memory for a copy of the adapter");
	c->exp_avg = c->param + n;
	c->exp_avg_sq = c->exp_avg + n;
	return 0;
}

static void
copies_fini(struct copies *c)
{
	free(c->param);
}

static struct artifact_identity
identity_of(const struct session *s, const char *digest)
{
	return (struct artifact_identity){.base_model = s->base_model,
	    .model_revision = s->model_revision,
	    .base_sha256 = digest,
	    .rank = s->rank,
	    .alpha = trainer_adapter(s->trainer)->alpha,
	    .dropout = s->options.dropout,
	    .seed = s->seed,
	    .build = STEPD_VERSION};
}

static struct state
state_of(const struct session *s, const char *digest)
{
	return (struct state){.identity = identity_of(s, digest),
	    .weight_decay = s->options.weight_decay,
	    .beta1 = s->options.beta1,
	    .beta2 = s->options.beta2,
	    .epsilon = s->options.epsilon,
	    .max_grad_norm = s->options.max_grad_norm,
	    .compute = session_compute(s),
	    .step = trainer_step_count(s->trainer),
	    .tokens_seen = s->tokens_seen,
	    .rows_consumed = s->rows_consumed,
	    .loss = s->loss};
}

static int
save_state(
    struct session *s, int fd, const char *digest, struct artifact_sum *sum, struct refusal *r)
{
	struct state state = state_of(s, digest);
	struct copies c;
	int rc;

	if (copies_init(&c, s, r) != 0)
		return -1;
	rc = trainer_get(s->trainer, c.param, c.exp_avg, c.exp_avg_sq, r);
	if (rc == 0)
		rc = state_write(fd, &state, trainer_adapter(s->trainer), c.param, c.exp_avg,
		    c.exp_avg_sq, sum, r);
	copies_fini(&c);
	return rc;
}

static int
save_sampling(
    struct session *s, int fd, const char *digest, struct artifact_sum *sum, struct refusal *r)
{
	struct sampling sampling = {.identity = identity_of(s, digest),
	    .step = trainer_step_count(s->trainer),
	    .loss = s->loss};
	struct copies c;
	int rc;

	if (copies_init(&c, s, r) != 0)
		return -1;
	rc = trainer_get(s->trainer, c.param, NULL, NULL, r);
	if (rc == 0)
		rc = sampling_write(fd, &sampling, trainer_adapter(s->trainer), c.param, s->files,
		    s->tokenizer, sum, r);
	copies_fini(&c);
	return rc;
}

int
session_save(struct session *s, enum artifact_kind kind, int fd, struct message_saved *out,
    struct refusal *r)
{
	struct artifact_sum sum;
	char digest[65];
	int rc;

	if (session_digest(s, digest, r) != 0)
		return -1;
	rc = kind == ARTIFACT_STATE ? save_state(s, fd, digest, &sum, r)
				    : save_sampling(s, fd, digest, &sum, r);
	if (rc != 0)
		return -1;
	memcpy(s->sha256, sum.sha256, sizeof(s->sha256));
	*out = (struct message_saved){
	    .size_bytes = sum.size, .step = trainer_step_count(s->trainer), .sha256 = s->sha256};
	return 0;
}

/* A state was made in one number format; a session that may choose goes on in the same. */
static int
follow_compute(struct session *s, const char *wanted, struct refusal *r)
{
	if (strcmp(wanted, session_compute(s)) == 0)
		return 0;
	if (!s->compute_auto)
		return refuse(r, 422,
		    "the state was trained in %s and this service is set to %s (STEPD_%s_COMPUTE)",
		    wanted, session_compute(s),
		    strcmp(device_backend(), "cuda") == 0 ? "GPU" : "CPU");
	return session_start(s, strcmp(wanted, "bf16") == 0 ? OP_BF16 : OP_F32, r);
}

static int
load_state(struct session *s, int fd, struct refusal *r)
{
	struct state_loaded loaded;
	struct state want;
	struct copies c;
	char digest[65];
	int rc;

	if (session_digest(s, digest, r) != 0 || copies_init(&c, s, r) != 0)
		return -1;
	want = state_of(s, digest);
	rc = state_read(
	    fd, &want, trainer_adapter(s->trainer), c.param, c.exp_avg, c.exp_avg_sq, &loaded, r);
	if (rc == 0)
		rc = follow_compute(s, loaded.compute, r);
	if (rc == 0)
		rc = trainer_set(s->trainer, c.param, c.exp_avg, c.exp_avg_sq, r);
	copies_fini(&c);
	if (rc != 0)
		return -1;
	trainer_set_step_count(s->trainer, loaded.step);
	s->tokens_seen = loaded.tokens_seen;
	s->rows_consumed = loaded.rows_consumed;
	s->loss = loaded.loss;
	return 0;
}

static int
load_sampling(struct session *s, int fd, struct refusal *r)
{
	struct artifact_identity want;
	struct copies c;
	char digest[65];
	int rc;

	if (session_digest(s, digest, r) != 0 || copies_init(&c, s, r) != 0)
		return -1;
	want = identity_of(s, digest);
	rc = sampling_read(fd, &want, trainer_adapter(s->trainer), c.param, r);
	if (rc == 0) /* an adapter begins a run of its own: moments zero, step 0 */
		rc = trainer_set(s->trainer, c.param, c.exp_avg, c.exp_avg_sq, r);
	copies_fini(&c);
	if (rc != 0)
		return -1;
	trainer_set_step_count(s->trainer, 0);
	s->tokens_seen = s->rows_consumed = 0;
	s->loss = NAN;
	return 0;
}

int
session_load(struct session *s, enum artifact_kind kind, int fd, struct message_loaded *out,
    struct refusal *r)
{
	int rc = kind == ARTIFACT_STATE ? load_state(s, fd, r) : load_sampling(s, fd, r);

	if (rc != 0)
		return -1;
	*out = (struct message_loaded){.step = trainer_step_count(s->trainer),
	    .tokens_seen = s->tokens_seen,
	    .compute = session_compute(s),
	    .micro_batch = s->trainer->options.micro_batch};
	return 0;
}

int
session_verify(const struct session *s, enum artifact_kind kind, int fd,
    struct message_verified *out, struct refusal *r)
{
	const struct adapter *a = trainer_adapter(s->trainer);
	struct state_loaded loaded = {0};
	struct state want;
	char digest[65];
	size_t sets = kind == ARTIFACT_STATE ? 3 : 1; /* of tensors in the adapter's shapes */
	int rc;

	if (session_digest(s, digest, r) != 0)
		return -1;
	want = state_of(s, digest);
	if (kind == ARTIFACT_STATE)
		rc = state_read(fd, &want, a, NULL, NULL, NULL, &loaded, r);
	else
		rc = sampling_read(fd, &want.identity, a, NULL, r);
	if (rc != 0)
		return -1;
	/* Exactly these were there, or it would have been refused. */
	*out = (struct message_verified){
	    .step = loaded.step, .tensors = sets * a->count, .elements = sets * a->size};
	return 0;
}
