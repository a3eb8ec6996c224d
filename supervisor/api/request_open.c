#include "supervisor/api/request_open.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "ipc/fields.h"
#include "supervisor/transfer/url_field.h"

void
request_open_defaults(struct request_open *out)
{
	memset(out, 0, sizeof(*out));
	strcpy(out->target_modules, "all-linear");
	out->weight_decay = 0.01;
	out->beta1 = 0.9;
	out->beta2 = 0.999;
	out->epsilon = 1e-8;
}

static void
read_contract(struct fields *s, struct request_open *out)
{
	static const struct integer_range rank = {.min = 0, .above = true, .max = 4096};
	static const struct integer_range seed = {.min = 0, .max = UINT32_MAX};
	static const struct integer_range tokens = {.min = 1, .above = true, .max = INT64_MAX};
	int64_t n;

	fields_string(s, "base_model", REQUIRED, 1, 512, &out->base_model);
	fields_hex(s, "model_revision", NULLABLE, 40, &out->model_revision);
	if (fields_integer(s, "lora_rank", REQUIRED, &rank, &n))
		out->lora_rank = (uint32_t)n;
	if (fields_integer(s, "seed", REQUIRED, &seed, &n))
		out->seed = (uint32_t)n;
	if (fields_integer(s, "maximum_datum_tokens", NULLABLE, &tokens, &n))
		out->maximum_datum_tokens = (uint64_t)n;
	fields_url(s, "resume_download_url", NULLABLE, &out->resume_download_url);
	fields_url(s, "sampling_download_url", NULLABLE, &out->sampling_download_url);
}

/* A module's name as Transformers has it, whole or its end: no comma, no pattern. */
static bool
element_module(struct faults *f, const struct place *at, struct json value, const void *arg)
{
	static const struct string_range range = {1, 256};
	const char *name;

	(void)arg;
	if (!element_string(f, at, value, &range))
		return false;
	name = json_string(value, NULL);
	for (const char *c = name; *c != '\0'; c++) {
		if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		    (*c >= '0' && *c <= '9') || *c == '_' || *c == '.')
			continue;
		faults_add(f, at, "string_pattern_mismatch",
		    "String should match pattern '^[A-Za-z0-9_.]+$'");
		return false;
	}
	return true;
}

static void
read_modules(struct fields *s, struct request_open *out)
{
	static const struct element_rule rule = {1, 256, element_module, NULL};
	struct json list = json_get(s->object, "target_modules");
	size_t len = 0;

	if (json_is(list, JSON_STRING)) {
		fields_value(s, "target_modules", NULLABLE);
		if (!json_string_is(list, "all-linear"))
			fields_fault(s, "target_modules", "literal_error",
			    "Input should be 'all-linear' or a list of module names");
		return;
	}
	if (!fields_list(s, "target_modules", NULLABLE, &rule, &list))
		return;
	json_foreach (item, list) {
		size_t add;
		const char *name = json_string(item, &add);

		if (len + add + 2 > sizeof(out->target_modules)) {
			fields_fault(s, "target_modules", "too_long",
			    "The names of all modules should have fewer than %d characters",
			    TARGET_MODULES_MAX);
			return;
		}
		if (len > 0)
			out->target_modules[len++] = ',';
		memcpy(out->target_modules + len, name, add + 1);
		len += add;
	}
}

static void
read_extensions(struct fields *s, struct request_open *out)
{
	static const struct number_range positive = {.min = 0, .above = true, .max = INFINITY};
	static const struct number_range not_negative = {.min = 0, .max = INFINITY};
	static const struct number_range below_one = {.min = 0, .max = 1, .below = true};

	fields_number(s, "lora_alpha", NULLABLE, &positive, &out->lora_alpha);
	fields_number(s, "lora_dropout", NULLABLE, &below_one, &out->lora_dropout);
	read_modules(s, out);
	fields_number(s, "weight_decay", NULLABLE, &not_negative, &out->weight_decay);
	fields_number(s, "beta1", NULLABLE, &below_one, &out->beta1);
	fields_number(s, "beta2", NULLABLE, &below_one, &out->beta2);
	fields_number(s, "epsilon", NULLABLE, &positive, &out->epsilon);
	fields_number(s, "max_grad_norm", NULLABLE, &not_negative, &out->max_grad_norm);
}

int
request_open_parse(struct json_doc *doc, struct request_open *out, struct faults *f)
{
	struct fields s;

	if (!fields_open(&s, f, &place_body, json_root(doc)))
		return -EINVAL;
	read_contract(&s, out);
	read_extensions(&s, out);
	if (!fields_close(&s))
		return -EINVAL;
	if (out->resume_download_url.text[0] == '\0' || out->sampling_download_url.text[0] == '\0')
		return 0;
	fields_fault(
	    &s, NULL, "value_error", "Value error, only one artifact restore URL may be supplied");
	return -EINVAL;
}
