#include "worker/artifact/adapter_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key_prefix[] = "base_model.model.";
static const char a_suffix[] = ".lora_A.weight";

/* The module path inside a key of an A; its length in *len, 0 for a B. */
static const char *
module_path(const struct adapter_tensor *t, size_t *len)
{
	size_t all = strlen(t->key), prefix = sizeof(key_prefix) - 1, suffix = sizeof(a_suffix) - 1;

	*len = 0;
	if (all > prefix + suffix && strncmp(t->key, key_prefix, prefix) == 0 &&
	    strcmp(t->key + all - suffix, a_suffix) == 0)
		*len = all - prefix - suffix;
	return t->key + prefix;
}

/* PEFT's rule: a target is a module's whole path or its end after a dot. */
static bool
covers(const char *target, size_t target_len, const char *path, size_t len)
{
	if (target_len > len || memcmp(path + len - target_len, target, target_len) != 0)
		return false;
	return target_len == len || path[len - target_len - 1] == '.';
}

static void
write_targets(struct json_writer *w, const struct adapter *a, size_t layers)
{
	json_write_array(w);
	for (size_t i = 0; i < a->target_count; i++) {
		size_t found = 0, len;

		for (size_t j = 0; j < a->count; j++) {
			const char *path = module_path(&a->tensors[j], &len);

			found += covers(a->targets[i], strlen(a->targets[i]), path, len);
		}
		if (found == layers)
			json_write_string(w, a->targets[i]);
		for (size_t j = 0; j < a->count && found != layers; j++) {
			const char *path = module_path(&a->tensors[j], &len);

			if (covers(a->targets[i], strlen(a->targets[i]), path, len))
				json_write_string_n(w, path, len);
		}
	}
	json_write_array_end(w);
}

/* PEFT writes whole numbers as integers; loaders that type the field insist on it. */
static void
put_alpha(struct json_writer *w, double alpha)
{
	if (alpha == floor(alpha) && fabs(alpha) < 1e15)
		json_put_int(w, "lora_alpha", (int64_t)alpha);
	else
		json_put_double(w, "lora_alpha", alpha);
}

static void
put_empty_object(struct json_writer *w, const char *key)
{
	json_write_key(w, key);
	json_write_object(w);
	json_write_object_end(w);
}

void
adapter_config_write(struct json_writer *w, const struct artifact_identity *identity,
    const struct adapter *a, size_t layers)
{
	const char *revision = identity->model_revision;

	json_write_object(w);
	json_put_string(w, "peft_type", "LORA");
	json_put_string(w, "task_type", "CAUSAL_LM");
	json_put_string(w, "base_model_name_or_path", identity->base_model);
	json_put_text(w, "revision", revision);
	json_put_uint(w, "r", identity->rank);
	put_alpha(w, identity->alpha);
	json_put_double(w, "lora_dropout", identity->dropout);
	json_write_key(w, "target_modules");
	write_targets(w, a, layers);
	json_put_string(w, "bias", "none");
	json_put_bool(w, "use_rslora", false);
	json_put_bool(w, "use_dora", false);
	json_put_bool(w, "lora_bias", false);
	json_put_bool(w, "fan_in_fan_out", false);
	json_put_bool(w, "init_lora_weights", true);
	json_put_bool(w, "inference_mode", true);
	put_empty_object(w, "rank_pattern");
	put_empty_object(w, "alpha_pattern");
	json_put_null(w, "modules_to_save");
	json_put_null(w, "layers_to_transform");
	json_put_null(w, "layers_pattern");
	json_put_null(w, "auto_mapping");
	json_write_object_end(w);
}

/* What a key of adapter_config.json may hold. */
enum rule {
	READ,	  /* looked at by name below */
	ANYTHING, /* tells nothing about the maths of these tensors */
	NOTHING,  /* null, false, 0, "" or empty: the variant is off */
};

/* Keys of PEFT 0.21 and before. A key that is not here must hold nothing. */
static const struct {
	const char *key;
	enum rule rule;
} rules[] = {
    {"peft_type", READ},
    {"task_type", READ},
    {"base_model_name_or_path", READ},
    {"revision", READ},
    {"r", READ},
    {"lora_alpha", READ},
    {"lora_dropout", READ},
    {"target_modules", READ},
    {"bias", READ},
    {"init_lora_weights", READ},
    {"peft_version", ANYTHING},
    {"auto_mapping", ANYTHING},
    {"inference_mode", ANYTHING},
    {"exclude_modules", ANYTHING}, /* which modules have tensors is seen by the tensors */
    {"layers_to_transform", ANYTHING},
    {"layers_pattern", ANYTHING},
    {"loftq_config", NOTHING},	     /* moves the base's weights */
    {"megatron_core", ANYTHING},     /* the name of a package */
    {"qalora_group_size", ANYTHING}, /* of use_qalora */
    {"runtime_config", ANYTHING},    /* where to compute, not what */
    {"ensure_weight_tying", NOTHING},
    {"eva_config", NOTHING},
};

/* lora_alpha counts as equal by its value: 16 and 16.0. */
static int
need_number(struct json root, const char *key, double want, struct refusal *r)
{
	double found;

	if (!json_double(json_get(root, key), &found))
		return refuse(r, 422, "the adapter's %s is missing or no number", key);
	if (found != want)
		return refuse(r, 422, "the adapter does not match %s: it has %g, the session %g",
		    key, found, want);
	return 0;
}

/* "" stands for null. */
static int
need_text(struct json root, const char *key, const char *name, const char *want, struct refusal *r)
{
	struct json v = json_get(root, key);
	const char *found = json_string(v, NULL);

	if (found == NULL && json_exists(v) && !json_is(v, JSON_NULL))
		return refuse(r, 422, "the adapter's %s is no string", key);
	if (found == NULL)
		found = "";
	if (strcmp(found, want) != 0)
		return refuse(r, 422,
		    "the adapter does not match %s: it has \"%.200s\", the session \"%.200s\"",
		    name, found, want);
	return 0;
}

static bool
holds_nothing(struct json v)
{
	double number;
	size_t len;

	switch (json_type(v)) {
	case JSON_NULL:
		return true;
	case JSON_BOOL:
		return !json_true(v);
	case JSON_NUMBER:
		return json_double(v, &number) && number == 0;
	case JSON_STRING:
		return json_string(v, &len) != NULL && len == 0;
	default:
		return json_count(v) == 0;
	}
}

static int
check_keys(struct json root, struct refusal *r)
{
	json_foreach (item, root) {
		const char *key = json_key(item, NULL);
		enum rule rule = NOTHING;

		for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
			if (strcmp(key, rules[i].key) == 0)
				rule = rules[i].rule;
		if (rule == NOTHING && !holds_nothing(item))
			return refuse(r, 422,
			    "the adapter uses %.60s, which is not supported: plain LoRA is", key);
	}
	return 0;
}

/* Some initializations change the base's weights, and the adapter fits the changed ones only. */
static int
check_initialization(struct json root, struct refusal *r)
{
	static const char *const harmless[] = {"gaussian", "orthogonal"};
	struct json v = json_get(root, "init_lora_weights");
	const char *text = json_string(v, NULL);
	bool known = !json_exists(v) || json_is(v, JSON_NULL) || json_is(v, JSON_BOOL);

	for (size_t i = 0; i < 2 && text != NULL; i++)
		known = known || strcmp(text, harmless[i]) == 0;
	if (known)
		return 0;
	return refuse(r, 422, "the adapter's init_lora_weights \"%.40s\" is not supported",
	    text != NULL ? text : "of another type");
}

static bool
is_covered(struct json targets, const char *path, size_t len)
{
	json_foreach (item, targets) {
		size_t target_len;
		const char *target = json_string(item, &target_len);

		if (target != NULL && target_len != 0 && covers(target, target_len, path, len))
			return true;
	}
	return false;
}

/* A list may name modules without tensors (PEFT lists those of a vision tower too); a string is an
   expression, and the tensors show what it found. */
static int
check_targets(struct json root, const struct adapter *a, struct refusal *r)
{
	struct json targets = json_get(root, "target_modules");

	if (json_is(targets, JSON_STRING))
		return 0;
	if (!json_is(targets, JSON_ARRAY) || json_count(targets) == 0)
		return refuse(r, 422, "the adapter's target_modules is no list of names");
	json_foreach (item, targets)
		if (!json_is(item, JSON_STRING))
			return refuse(r, 422, "the adapter's target_modules is no list of names");
	for (size_t i = 0; i < a->count; i++) {
		size_t len;
		const char *path = module_path(&a->tensors[i], &len);

		if (len != 0 && !is_covered(targets, path, len))
			return refuse(r, 422,
			    "the adapter's target_modules leave out %.*s, which the session adapts",
			    (int)len, path);
	}
	return 0;
}

int
adapter_config_check(struct json root, const struct artifact_identity *want,
    const struct adapter *a, struct refusal *r)
{
	struct json task = json_get(root, "task_type");
	double dropout = 0;

	if (!json_is(root, JSON_OBJECT))
		return refuse(r, 422, "adapter_config.json is no JSON object");
	if (!json_string_is(json_get(root, "peft_type"), "LORA"))
		return refuse(r, 422, "the adapter's peft_type is not LORA");
	if (json_exists(task) && !json_is(task, JSON_NULL) && !json_string_is(task, "CAUSAL_LM"))
		return refuse(r, 422, "the adapter's task_type is not CAUSAL_LM");
	if (check_keys(root, r) != 0 ||
	    need_text(root, "base_model_name_or_path", "base_model", want->base_model, r) != 0 ||
	    need_text(root, "revision", "model_revision", want->model_revision, r) != 0 ||
	    need_number(root, "r", want->rank, r) != 0 ||
	    need_number(root, "lora_alpha", want->alpha, r) != 0)
		return -1;
	if (json_exists(json_get(root, "bias")) && !json_string_is(json_get(root, "bias"), "none"))
		return refuse(r, 422, "the adapter's bias is not \"none\"");
	if (json_exists(json_get(root, "lora_dropout")) &&
	    (!json_double(json_get(root, "lora_dropout"), &dropout) || !(dropout >= 0) ||
		dropout > 1))
		return refuse(r, 422, "the adapter's lora_dropout is no number from 0 to 1");
	if (check_initialization(root, r) != 0)
		return -1;
	return check_targets(root, a, r);
}
