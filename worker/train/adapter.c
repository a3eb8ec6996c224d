#include "worker/train/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"

enum { NAME_SIZE = 256, KEY_SIZE = NAME_SIZE + 64 };

static bool
wants_all(const char *targets)
{
	return strcmp(targets, "all-linear") == 0;
}

/* True if path is name, or ends in "." + name: PEFT's rule for a list of names. */
static bool
path_ends_in(const char *path, const char *name, size_t len)
{
	const size_t n = strlen(path);

	if (n < len || memcmp(path + n - len, name, len) != 0)
		return false;
	return n == len || path[n - len - 1] == '.';
}

/* Walks the names of a comma-separated list: the next one, or NULL at the end. */
static const char *
next_name(const char **at, size_t *len)
{
	const char *name = *at;

	if (name == NULL)
		return NULL;
	*len = strcspn(name, ",");
	*at = name[*len] == ',' ? name + *len + 1 : NULL;
	return name;
}

static bool
is_target(const char *path, const char *targets)
{
	size_t len;

	if (wants_all(targets))
		return true;
	for (const char *at = targets, *name; (name = next_name(&at, &len)) != NULL;)
		if (path_ends_in(path, name, len))
			return true;
	return false;
}

/* True if the name takes at least one linear layer of the model. */
static bool
name_is_known(const struct model_config *c, const char *name, size_t len)
{
	char path[NAME_SIZE];

	for (size_t l = 0; l < c->layer_count; l++) {
		for (enum model_linear i = 0; i < LINEAR_COUNT; i++) {
			model_module_name(path, sizeof(path), c, l, model_linear_path(i));
			if (path_ends_in(path, name, len))
				return true;
		}
	}
	return false;
}

static int
check_targets(const struct model_config *c, const char *targets, struct refusal *r)
{
	size_t len;

	if (wants_all(targets))
		return 0;
	for (const char *at = targets, *name; (name = next_name(&at, &len)) != NULL;) {
		if (path_ends_in("lm_head", name, len))
			return refuse(r, 422,
			    "target_modules: the output head lm_head%s is not adapted",
			    c->tied_head ? ", tied to the embedding," : "");
		if (path_ends_in("embed_tokens", name, len))
			return refuse(r, 422, "target_modules: embed_tokens is not a linear layer");
		if (!name_is_known(c, name, len))
			return refuse(r, 422, "target_modules: no linear layer is named \"%.*s\"",
			    (int)(len < 100 ? len : 100), name);
	}
	return 0;
}

/* Adds one tensor behind the last. 0, or -1 if memory ran out or a size does not fit. */
static int
add_tensor(struct adapter *a, const char *module, const char *part, size_t rows, size_t cols)
{
	struct adapter_tensor *t = &a->tensors[a->count];
	char key[KEY_SIZE];
	size_t size;

	snprintf(key, sizeof(key), "base_model.model.%s.%s.weight", module, part);
	if (__builtin_mul_overflow(rows, cols, &size) ||
	    __builtin_add_overflow(a->size, size, &size) || size > SIZE_MAX / sizeof(float))
		return -1;
	t->key = strdup(key);
	if (t->key == NULL)
		return -1;
	t->rows = rows;
	t->cols = cols;
	t->offset = a->size;
	a->size = size;
	a->count++;
	return 0;
}

static int
add_pair(struct adapter *a, const struct model_config *c, size_t layer, enum model_linear which,
    const char *module)
{
	struct adapter_pair *pair = &a->pairs[layer * LINEAR_COUNT + which];
	size_t outputs, inputs;

	model_linear_shape(c, which, &outputs, &inputs);
	pair->a = (int32_t)a->count;
	pair->b = pair->a + 1;
	a->modules++;
	if (add_tensor(a, module, "lora_A", a->rank, inputs) != 0)
		return -1;
	return add_tensor(a, module, "lora_B", outputs, a->rank);
}

/* Keeps targets sorted and each name once. */
static void
add_target(struct adapter *a, enum model_linear which)
{
	const char *name = strrchr(model_linear_path(which), '.') + 1;
	size_t at = 0;

	while (at < a->target_count && strcmp(a->targets[at], name) < 0)
		at++;
	if (at < a->target_count && strcmp(a->targets[at], name) == 0)
		return;
	memmove(
	    &a->targets[at + 1], &a->targets[at], (a->target_count - at) * sizeof(a->targets[0]));
	a->targets[at] = name;
	a->target_count++;
}

static int
add_layers(struct adapter *a, const struct model_config *c, const char *targets)
{
	char module[NAME_SIZE];

	for (size_t l = 0; l < c->layer_count; l++) {
		for (enum model_linear i = 0; i < LINEAR_COUNT; i++) {
			a->pairs[l * LINEAR_COUNT + i] =
			    (struct adapter_pair){ADAPTER_NONE, ADAPTER_NONE};
			model_module_name(module, sizeof(module), c, l, model_linear_path(i));
			if (!is_target(module, targets))
				continue;
			if (add_pair(a, c, l, i, module) != 0)
				return -1;
			add_target(a, i);
		}
	}
	return 0;
}

int
adapter_init(struct adapter *out, const struct model_config *config, size_t rank, double alpha,
    const char *targets, struct refusal *r)
{
	const size_t layers = config->layer_count * LINEAR_COUNT;

	memset(out, 0, sizeof(*out));
	if (rank == 0)
		return refuse(r, 422, "lora_rank: 0 is no rank");
	if (check_targets(config, targets, r) != 0)
		return -1;
	out->rank = rank;
	out->alpha = alpha == 0 ? 2 * (double)rank : alpha;
	out->tensors = calloc(2 * layers, sizeof(*out->tensors));
	out->pairs = calloc(layers, sizeof(*out->pairs));
	if (out->tensors == NULL || out->pairs == NULL || add_layers(out, config, targets) != 0) {
		adapter_fini(out);
		return refuse(r, 507, "no memory for an adapter of rank %zu", rank);
	}
	return 0;
}

void
adapter_fini(struct adapter *a)
{
	for (size_t i = 0; i < a->count; i++)
		free(a->tensors[i].key);
	free(a->tensors);
	free(a->pairs);
	memset(a, 0, sizeof(*a));
}

/* FNV-1a, 64 bits: tells the tensors' random streams apart. */
static uint64_t
hash_key(const char *key)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *key != '\0'; key++)
		hash = (hash ^ (unsigned char)*key) * 0x100000001b3u;
	return hash;
}

/* out (n) uniform in [-bound, bound): 24 random bits each, scaled in double, then rounded. */
static void
fill_uniform(float *out, size_t n, double bound, uint64_t seed, uint64_t stream)
{
	uint32_t word[4];

	for (size_t i = 0; i < n; i++) {
		if (i % 4 == 0)
			philox(word, seed, stream, i / 4);
		out[i] = (float)(((double)(word[i % 4] >> 8) / 0x1p23 - 1) * bound);
	}
}

void
adapter_start(const struct adapter *a, uint64_t seed, float *param)
{
	memset(param, 0, a->size * sizeof(*param));
	for (size_t i = 0; i < a->count; i += 2) {
		const struct adapter_tensor *t = &a->tensors[i];

		fill_uniform(param + t->offset, t->rows * t->cols, 1 / sqrt((double)t->cols), seed,
		    hash_key(t->key));
	}
}

const struct adapter_tensor *
adapter_at(const struct adapter *a, size_t index)
{
	size_t low = 0, high = a->count;

	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;

		if (a->tensors[middle].offset <= index)
			low = middle;
		else
			high = middle;
	}
	return &a->tensors[low];
}
