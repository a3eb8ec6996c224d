#include "worker/artifact/state.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/artifact/tensor_file.h"

/* The three sets of tensors, in the order of the file. */
static const char *const prefixes[] = {"adapter.", "exp_avg.", "exp_avg_sq."};

/*
 * Every field of __metadata__, once: X(name, how, value of struct state *s). How:
 * CONSTANT  always this text; another means another format
 * TEXT      must be equal       NUMBER  a double, must be equal       COUNT  a u64, must be equal
 * FREE_*    comes back from the file, is not compared; FREE_LOSS may be "nan"
 */
#define STATE_FIELDS(X)                                                                            \
	X(format, CONSTANT, "stepd-state/1")                                                       \
	X(base_model, TEXT, s->identity.base_model)                                                \
	X(model_revision, TEXT, s->identity.model_revision)                                        \
	X(base_sha256, TEXT, s->identity.base_sha256)                                              \
	X(lora_rank, COUNT, s->identity.rank)                                                      \
	X(lora_alpha, NUMBER, s->identity.alpha)                                                   \
	X(lora_dropout, NUMBER, s->identity.dropout)                                               \
	X(target_modules, TEXT, targets)                                                           \
	X(seed, COUNT, s->identity.seed)                                                           \
	X(weight_decay, NUMBER, s->weight_decay)                                                   \
	X(beta1, NUMBER, s->beta1)                                                                 \
	X(beta2, NUMBER, s->beta2)                                                                 \
	X(epsilon, NUMBER, s->epsilon)                                                             \
	X(max_grad_norm, NUMBER, s->max_grad_norm)                                                 \
	/* Nothing random but by counter: the seed and the step are all of its state. */           \
	X(rng, CONSTANT, "philox4x32-10 of seed and step")                                         \
	X(schedule, CONSTANT, "in every request")                                                  \
	X(reference, CONSTANT, "base")                                                             \
	X(step, FREE_COUNT, s->step)                                                               \
	X(tokens_seen, FREE_COUNT, s->tokens_seen)                                                 \
	X(rows_consumed, FREE_COUNT, s->rows_consumed)                                             \
	X(loss, FREE_LOSS, s->loss)                                                                \
	X(compute, FREE_TEXT, s->compute)                                                          \
	X(build, FREE_TEXT, s->identity.build)

enum { TEXT_SIZE = 32, TARGETS_SIZE = 1024 };

/* The names of the adapted layers, sorted, joined by commas. */
static void
join_targets(char out[TARGETS_SIZE], const struct adapter *a)
{
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 0; i < a->target_count && len < TARGETS_SIZE; i++)
		len += (size_t)snprintf(
		    out + len, TARGETS_SIZE - len, "%s%s", i != 0 ? "," : "", a->targets[i]);
}

static void
put_text(struct json_writer *w, const char *name, const char *value)
{
	json_put_string(w, name, value);
}

static void
put_count(struct json_writer *w, const char *name, uint64_t value)
{
	char text[TEXT_SIZE];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	json_put_string(w, name, text);
}

/* 17 digits bring a double back bit for bit. */
static void
put_number(struct json_writer *w, const char *name, double value)
{
	char text[TEXT_SIZE];

	snprintf(text, sizeof(text), isnan(value) ? "nan" : "%.17g", value);
	json_put_string(w, name, text);
}

#define PUT_CONSTANT put_text
#define PUT_TEXT put_text
#define PUT_FREE_TEXT put_text
#define PUT_COUNT put_count
#define PUT_FREE_COUNT put_count
#define PUT_NUMBER put_number
#define PUT_FREE_LOSS put_number

static void *
make_header(const struct state *s, const struct adapter *a, size_t *len)
{
	struct tensor_file f;
	struct json_writer *w;
	char targets[TARGETS_SIZE];

	join_targets(targets, a);
	tensor_file_init(&f);
	w = tensor_file_metadata(&f);
#define PUT(name, how, value) PUT_##how(w, #name, value);
	STATE_FIELDS(PUT)
#undef PUT
	tensor_file_metadata_end(&f);
	for (size_t i = 0; i < 3; i++)
		tensor_file_add(&f, prefixes[i], a);
	return tensor_file_header(&f, len);
}

int
state_write(int fd, const struct state *s, const struct adapter *a, const float *param,
    const float *exp_avg, const float *exp_avg_sq, struct artifact_sum *sum, struct refusal *r)
{
	const float *const values[] = {param, exp_avg, exp_avg_sq};
	struct artifact_sink sink;
	size_t len;
	void *header;
	int result;

	for (size_t i = 0; i < 3; i++)
		if (tensor_file_finite(a, prefixes[i], values[i], r) != 0)
			return -1;
	if (artifact_sink_init(&sink, fd, r) != 0)
		return -1;
	header = make_header(s, a, &len);
	if (header == NULL) {
		artifact_sink_fini(&sink);
		return refuse(r, 507, "no memory to write the state");
	}
	artifact_sink_write(&sink, header, len);
	free(header);
	for (size_t i = 0; i < 3; i++)
		for (size_t j = 0; j < a->count; j++)
			artifact_sink_write(&sink, values[i] + a->tensors[j].offset,
			    a->tensors[j].rows * a->tensors[j].cols * sizeof(float));
	result = artifact_sink_finish(&sink, sum, r);
	artifact_sink_fini(&sink);
	return result;
}

static int
differs(const char *name, const char *found, const char *want, struct refusal *r)
{
	return refuse(r, 422,
	    "the state does not match %s: it has \"%.150s\", the session \"%.150s\"", name, found,
	    want);
}

static int
bad_form(const char *name, struct refusal *r)
{
	return refuse(r, 422, "the state's %s is not of its form", name);
}

static int
get_text(const char *name, const char *found, const char *want, struct refusal *r)
{
	return strcmp(found, want) == 0 ? 0 : differs(name, found, want, r);
}

static int
read_count(const char *name, const char *found, uint64_t *out, struct refusal *r)
{
	char *end;

	errno = 0;
	*out = strtoull(found, &end, 10);
	if (found[0] < '0' || found[0] > '9' || *end != '\0' || errno != 0)
		return bad_form(name, r);
	return 0;
}

static int
get_count(const char *name, const char *found, uint64_t want, struct refusal *r)
{
	char text[TEXT_SIZE];
	uint64_t n;

	if (read_count(name, found, &n, r) != 0)
		return -1;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)want);
	return n == want ? 0 : differs(name, found, text, r);
}

static int
read_number(const char *name, const char *found, double *out, struct refusal *r)
{
	char *end;

	*out = strtod(found, &end);
	if (end == found || *end != '\0' || strspn(found, "+-.0123456789eE") != strlen(found) ||
	    !isfinite(*out))
		return bad_form(name, r);
	return 0;
}

static int
get_number(const char *name, const char *found, double want, struct refusal *r)
{
	char text[TEXT_SIZE];
	double n;

	if (read_number(name, found, &n, r) != 0)
		return -1;
	snprintf(text, sizeof(text), "%.17g", want);
	return n == want ? 0 : differs(name, found, text, r);
}

static int
read_free(const struct safetensors *f, struct state_loaded *out, struct refusal *r)
{
	const char *loss = safetensors_metadata(f, "loss");
	const char *compute = safetensors_metadata(f, "compute");

	memset(out, 0, sizeof(*out));
	out->loss = NAN;
	if (read_count("step", safetensors_metadata(f, "step"), &out->step, r) != 0 ||
	    read_count(
		"tokens_seen", safetensors_metadata(f, "tokens_seen"), &out->tokens_seen, r) != 0 ||
	    read_count("rows_consumed", safetensors_metadata(f, "rows_consumed"),
		&out->rows_consumed, r) != 0)
		return -1;
	if (out->step > INT64_MAX)
		return bad_form("step", r);
	if ((out->step != 0 || strcmp(loss, "nan") != 0) &&
	    read_number("loss", loss, &out->loss, r) != 0)
		return -1;
	if (strcmp(compute, "f32") != 0 && strcmp(compute, "bf16") != 0)
		return bad_form("compute", r);
	snprintf(out->compute, sizeof(out->compute), "%s", compute);
	return 0;
}

#define GET_CONSTANT(name, value) get_text(name, found, value, r)
#define GET_TEXT(name, value) get_text(name, found, value, r)
#define GET_COUNT(name, value) get_count(name, found, value, r)
#define GET_NUMBER(name, value) get_number(name, found, value, r)
#define GET_FREE_TEXT(name, value) ((void)(value), 0)
#define GET_FREE_COUNT(name, value) ((void)(value), 0)
#define GET_FREE_LOSS(name, value) ((void)(value), 0)

static int
check_fields(
    const struct safetensors *f, const struct state *s, const struct adapter *a, struct refusal *r)
{
	char targets[TARGETS_SIZE];
	const char *found;
	size_t count = 0;

	join_targets(targets, a);
	/* The format first, then all have to be there before one is compared: in a file of another
	   kind that is said, and what is missing is named. */
	found = safetensors_metadata(f, "format");
	if (found != NULL && strcmp(found, "stepd-state/1") != 0)
		return differs("format", found, "stepd-state/1", r);
#define NEED(name, how, value)                                                                     \
	if (safetensors_metadata(f, #name) == NULL)                                                \
		return refuse(r, 422, "the state has no %s in its metadata", #name);               \
	count++;
	STATE_FIELDS(NEED)
#undef NEED
#define GET(name, how, value)                                                                      \
	found = safetensors_metadata(f, #name);                                                    \
	if (GET_##how(#name, value) != 0)                                                          \
		return -1;
	STATE_FIELDS(GET)
#undef GET
	if (json_count(safetensors_metadata_object(f)) != count)
		return refuse(r, 422,
		    "the state's metadata has a field that is not known, or one "
		    "twice");
	return 0;
}

/* The second moment is a mean of squares. */
static int
check_squares(const struct safetensors *f, struct refusal *r)
{
	const struct safetensors_tensor *t;

	for (size_t i = 0; (t = safetensors_at(f, i)) != NULL; i++) {
		const unsigned char *p = t->data;

		if (strncmp(t->name, prefixes[2], strlen(prefixes[2])) != 0)
			continue;
		for (uint64_t j = 0; j < t->count; j++) {
			float v;

			memcpy(&v, p + 4 * j, sizeof(v));
			if (v < 0)
				return refuse(
				    r, 422, "the state holds a value below 0 in %s", t->name);
		}
	}
	return 0;
}

static int
check_state(const struct safetensors *f, const struct state *want, const struct adapter *a,
    struct state_loaded *out, struct refusal *r)
{
	if (check_fields(f, want, a, r) != 0 || read_free(f, out, r) != 0)
		return -1;
	for (size_t i = 0; i < 3; i++)
		if (tensor_file_check(f, a, prefixes[i], false, "the state", r) != 0)
			return -1;
	if (safetensors_count(f) != 3 * a->count)
		return refuse(r, 422, "the state holds %zu tensors, not %zu", safetensors_count(f),
		    3 * a->count);
	return check_squares(f, r);
}

int
state_read(int fd, const struct state *want, const struct adapter *a, float *param, float *exp_avg,
    float *exp_avg_sq, struct state_loaded *out, struct refusal *r)
{
	float *const values[] = {param, exp_avg, exp_avg_sq};
	struct artifact_view view;
	struct safetensors *f;
	char why[300];
	int result;

	if (artifact_map(&view, fd, r) != 0)
		return -1;
	result = safetensors_open(&f, view.data, view.len, why, sizeof(why));
	if (result != 0)
		result = refuse(r, result == -ENOMEM ? 507 : 422, "the state cannot be read: %s",
		    result == -ENOMEM ? "no memory" : why);
	else
		result = check_state(f, want, a, out, r);
	if (result == 0 && param != NULL)
		for (size_t i = 0; i < 3; i++)
			tensor_file_copy(f, a, prefixes[i], values[i]);
	safetensors_free(f);
	artifact_unmap(&view);
	return result;
}
