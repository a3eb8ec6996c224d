#include "worker/files/config_rope.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dequant.h"

struct llama3 {
	double factor, low, high, original;
};

/* c->rope for full heads: frequencies in float32, one rounding per step as the field does it. */
static int
rope_default(struct model_config *c, double theta, struct refusal *r)
{
	size_t half = c->head_dim / 2;

	if (!(theta > 0) || !isfinite(theta))
		return refuse(r, 422, "rope_theta of the model is not a number above 0");
	if (c->head_dim % 2 != 0)
		return refuse(r, 422,
		    "head_dim %zu of the model is odd: rotary embedding needs pairs", c->head_dim);
	c->rope.frequency = malloc(half * sizeof(float));
	if (c->rope.frequency == NULL)
		return refuse(r, 507, "no memory for the model's configuration");
	c->rope.half = half;
	c->rope.magnitude = 1;
	for (size_t i = 0; i < half; i++) {
		float exponent = (float)(2 * i) / (float)c->head_dim;

		c->rope.frequency[i] = 1.0f / (float)pow(theta, exponent);
	}
	return 0;
}

static void
rope_divide(struct model_config *c, double factor)
{
	for (size_t i = 0; i < c->rope.half; i++)
		c->rope.frequency[i] /= (float)factor;
}

static void
rope_llama3(struct model_config *c, const struct llama3 *p)
{
	float low_length = (float)(p->original / p->low);
	float high_length = (float)(p->original / p->high);

	for (size_t i = 0; i < c->rope.half; i++) {
		float f = c->rope.frequency[i];
		float length = (float)(2 * M_PI) / f;
		float smooth;

		if (length > low_length) {
			c->rope.frequency[i] = f / (float)p->factor;
		} else if (length >= high_length) {
			smooth = ((float)p->original / length - (float)p->low) /
				 (float)(p->high - p->low);
			c->rope.frequency[i] = (1 - smooth) * f / (float)p->factor + smooth * f;
		}
	}
}

/* A number above 0 under key in the rope object. */
static int
positive(struct json rope, const char *key, double *out, struct refusal *r)
{
	struct json v = json_get(rope, key);

	if (!json_double(v, out) || !isfinite(*out) || *out <= 0)
		return refuse(r, 422, "config.json: %s of the rotary embedding is %s", key,
		    json_exists(v) ? "no number above 0" : "missing");
	return 0;
}

static int
check_keys(struct json rope, struct refusal *r)
{
	static const char *const known[] = {"rope_type", "type", "rope_theta", "factor",
	    "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
	double one;

	json_foreach (item, rope) {
		const char *key = json_key(item, NULL);
		bool found =
		    json_is(item, JSON_NULL) || (strcmp(key, "partial_rotary_factor") == 0 &&
						    json_double(item, &one) && one == 1);

		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			found = found || strcmp(key, known[i]) == 0;
		if (!found)
			return refuse(r, 422,
			    "config.json: %.60s of the rotary embedding is not supported", key);
	}
	return 0;
}

static int
llama3_from_json(struct model_config *c, struct json rope, struct json root, struct refusal *r)
{
	static const char name[] = "original_max_position_embeddings";
	struct llama3 p = {.original = (double)c->positions};
	struct json original = json_get(rope, name);

	if (!json_exists(original) || json_is(original, JSON_NULL))
		original = json_get(root, name);
	if (json_exists(original) && !json_is(original, JSON_NULL) &&
	    (!json_double(original, &p.original) || !(p.original > 0)))
		return refuse(r, 422, "config.json: %s is no number above 0", name);
	if (positive(rope, "factor", &p.factor, r) != 0 ||
	    positive(rope, "low_freq_factor", &p.low, r) != 0 ||
	    positive(rope, "high_freq_factor", &p.high, r) != 0)
		return -1;
	if (p.high <= p.low)
		return refuse(r, 422,
		    "config.json: high_freq_factor of the rotary embedding is not "
		    "above low_freq_factor");
	rope_llama3(c, &p);
	return 0;
}

static bool
is_filled_object(struct json v)
{
	return json_is(v, JSON_OBJECT) && json_count(v) != 0;
}

/* The object that describes the rotary embedding, or none; rope_scaling wins, as in Transformers.
 */
static int
find_rope(struct json root, struct json *rope, struct refusal *r)
{
	static const char *const names[] = {"rope_scaling", "rope_parameters"};

	*rope = (struct json){NULL, 0};
	for (size_t i = 0; i < 2; i++) {
		struct json v = json_get(root, names[i]);

		if (json_exists(v) && !json_is(v, JSON_NULL) && !json_is(v, JSON_OBJECT))
			return refuse(r, 422, "config.json: %s is no object", names[i]);
		if (!json_exists(*rope) && is_filled_object(v))
			*rope = v;
	}
	return 0;
}

static int
find_theta(struct json root, struct json rope, double *theta, struct refusal *r)
{
	struct json v = json_get(rope, "rope_theta");

	if (!json_exists(v) || json_is(v, JSON_NULL))
		v = json_get(root, "rope_theta");
	if (json_exists(v) && !json_is(v, JSON_NULL) && !json_double(v, theta))
		return refuse(r, 422, "config.json: rope_theta is no number");
	return 0;
}

int
rope_from_json(struct model_config *c, struct json root, double default_theta, struct refusal *r)
{
	double theta = default_theta, factor;
	const char *type = "default";
	struct json rope, name;

	if (find_rope(root, &rope, r) != 0 || find_theta(root, rope, &theta, r) != 0)
		return -1;
	name = json_get(rope, "rope_type");
	if (!json_exists(name) || json_is(name, JSON_NULL))
		name = json_get(rope, "type");
	if (json_exists(name) && !json_is(name, JSON_NULL)) {
		type = json_string(name, NULL);
		if (type == NULL)
			return refuse(r, 422, "config.json: rope_type is no string");
	}
	if (strcmp(type, "default") != 0 && strcmp(type, "linear") != 0 &&
	    strcmp(type, "llama3") != 0)
		return refuse(r, 422,
		    "config.json: rope_type \"%.60s\" is not supported; default, linear and llama3 "
		    "are",
		    type);
	if (check_keys(rope, r) != 0 || rope_default(c, theta, r) != 0)
		return -1;
	if (strcmp(type, "llama3") == 0)
		return llama3_from_json(c, rope, root, r);
	if (strcmp(type, "linear") == 0) {
		if (positive(rope, "factor", &factor, r) != 0)
			return -1;
		rope_divide(c, factor);
	}
	return 0;
}

/* llama3 scaling in GGUF is a tensor of divisors, one for each pair. */
static int
rope_from_tensor(struct model_config *c, const struct gguf_tensor *t, struct refusal *r)
{
	float *factors;

	if (t->type != DEQUANT_F32 || t->rows != 1 || t->cols != c->rope.half)
		return refuse(r, 422, "rope_freqs.weight has not %zu values in F32", c->rope.half);
	factors = malloc(t->size);
	if (factors == NULL)
		return refuse(r, 507, "no memory for the model's configuration");
	memcpy(factors, t->data, t->size);
	for (size_t i = 0; i < c->rope.half; i++) {
		if (!(factors[i] > 0) || !isfinite(factors[i])) {
			free(factors);
			return refuse(r, 422, "rope_freqs.weight holds a value that is no factor");
		}
		c->rope.frequency[i] /= factors[i];
	}
	free(factors);
	return 0;
}

static bool
gguf_rope_float(const struct gguf *g, const char *arch, const char *name, double *out)
{
	char key[80];

	snprintf(key, sizeof(key), "%s.rope.%s", arch, name);
	return gguf_float(g, key, out);
}

int
rope_from_gguf(struct model_config *c, const struct gguf *g, const char *arch, struct refusal *r)
{
	const struct gguf_tensor *freqs = gguf_tensor(g, "rope_freqs.weight");
	double theta = 10000, dimensions = (double)c->head_dim, factor = 1;
	char key[80];
	bool linear;

	gguf_rope_float(g, arch, "freq_base", &theta);
	gguf_rope_float(g, arch, "dimension_count", &dimensions);
	if (dimensions != (double)c->head_dim)
		return refuse(r, 422, "%s.rope.dimension_count is %g, not the head's %zu", arch,
		    dimensions, c->head_dim);
	snprintf(key, sizeof(key), "%s.rope.scaling.type", arch);
	linear = gguf_string_is(g, key, "linear");
	if (gguf_has(g, key) && !linear && !gguf_string_is(g, key, "none"))
		return refuse(
		    r, 422, "%s of the GGUF file is not supported; none and linear are", key);
	if (gguf_rope_float(g, arch, "scale_linear", &factor)) /* an older spelling */
		linear = true;
	gguf_rope_float(g, arch, "scaling.factor", &factor);
	if (rope_default(c, theta, r) != 0)
		return -1;
	if (linear) {
		if (!(factor > 0) || !isfinite(factor))
			return refuse(r, 422, "%s.rope.scaling.factor is no number above 0", arch);
		rope_divide(c, factor);
	}
	return freqs != NULL ? rope_from_tensor(c, freqs, r) : 0;
}
