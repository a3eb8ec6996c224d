#include "ipc/fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ipc/lax.h"
#include "ipc/utf8.h"

bool
fields_open(struct fields *s, struct faults *f, const struct place *place, struct json value)
{
	*s = (struct fields){.faults = f, .place = place, .object = value, .valid = true};
	if (json_is(value, JSON_OBJECT))
		return true;
	s->valid = false;
	faults_add(f, place, "model_attributes_type",
	    "Input should be a valid dictionary or object to extract fields from");
	return false;
}

void
fields_fault(struct fields *s, const char *key, const char *type, const char *format, ...)
{
	struct place at = {s->place, key, key == NULL ? 0 : strlen(key), 0};
	char message[256];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	faults_add(s->faults, key == NULL ? s->place : &at, type, "%s", message);
	s->valid = false;
}

struct json
fields_value(struct fields *s, const char *key, enum need need)
{
	struct json value = json_get(s->object, key);

	if (s->count < FIELDS_MAX)
		s->known[s->count++] = key;
	if (!json_exists(value) && need == REQUIRED)
		fields_fault(s, key, "missing", "Field required");
	if (json_is(value, JSON_NULL) && need == NULLABLE)
		return (struct json){NULL, 0};
	return value;
}

static bool
is_known(const struct fields *s, const char *key, size_t len)
{
	for (size_t i = 0; i < s->count; i++)
		if (strlen(s->known[i]) == len && memcmp(s->known[i], key, len) == 0)
			return true;
	return false;
}

/* Keys seen, by their hash: an unknown key that stands twice is one fault. */
struct key_set {
	uint64_t slot[2 * FAULTS_MAX]; /* 0 = free */
};

static bool
key_set_add(struct key_set *set, const char *key, size_t len)
{
	const size_t slots = sizeof(set->slot) / sizeof(set->slot[0]);
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
	size_t at;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)key[i]) * 0x100000001b3;
	hash |= 1;
	for (at = hash % slots; set->slot[at] != 0; at = (at + 1) % slots)
		if (set->slot[at] == hash)
			return false;
	set->slot[at] = hash;
	return true;
}

bool
fields_close(struct fields *s)
{
	struct key_set seen;
	size_t unknown = 0;

	if (!json_is(s->object, JSON_OBJECT))
		return false;
	json_foreach (member, s->object) {
		size_t len;
		const char *key = json_key(member, &len);
		struct place at = {s->place, key, len, 0};

		if (is_known(s, key, len))
			continue;
		if (unknown++ == 0)
			memset(&seen, 0, sizeof(seen));
		if (unknown > FAULTS_MAX)
			break;
		if (!key_set_add(&seen, key, len))
			continue;
		faults_add(s->faults, &at, "extra_forbidden", "Extra inputs are not permitted");
		s->valid = false;
	}
	return s->valid;
}

static const char *
plural(size_t count)
{
	return count == 1 ? "" : "s";
}

static bool
judge_string(struct faults *f, const struct place *at, struct json value, size_t min, size_t max)
{
	size_t len = 0, characters;
	const char *text = json_string(value, &len);

	if (text == NULL) {
		faults_add(f, at, "string_type", "Input should be a valid string");
		return false;
	}
	characters = utf8_count(text, len);
	if (characters < min)
		faults_add(f, at, "string_too_short", "String should have at least %zu character%s",
		    min, plural(min));
	else if (characters > max)
		faults_add(f, at, "string_too_long", "String should have at most %zu character%s",
		    max, plural(max));
	return characters >= min && characters <= max;
}

bool
element_string(struct faults *f, const struct place *at, struct json value, const void *arg)
{
	const struct string_range *range = arg;

	return judge_string(
	    f, at, value, range == NULL ? 0 : range->min, range == NULL ? SIZE_MAX : range->max);
}

bool
fields_string(
    struct fields *s, const char *key, enum need need, size_t min, size_t max, const char **out)
{
	struct json value = fields_value(s, key, need);
	struct place at = {s->place, key, strlen(key), 0};

	if (!json_exists(value))
		return false;
	if (!judge_string(s->faults, &at, value, min, max)) {
		s->valid = false;
		return false;
	}
	*out = json_string(value, NULL);
	return true;
}

bool
fields_hex(struct fields *s, const char *key, enum need need, size_t count, const char **out)
{
	struct json value = fields_value(s, key, need);
	size_t len = 0;
	const char *text = json_string(value, &len);

	if (!json_exists(value))
		return false;
	if (text == NULL) {
		fields_fault(s, key, "string_type", "Input should be a valid string");
		return false;
	}
	if (len != count || strspn(text, "0123456789abcdef") != len) {
		fields_fault(s, key, "string_pattern_mismatch",
		    "String should match pattern '^[0-9a-f]{%zu}$'", count);
		return false;
	}
	*out = text;
	return true;
}

bool
fields_choice(struct fields *s, const char *key, enum need need, const char *const *choices,
    size_t count, unsigned *out)
{
	struct json value = fields_value(s, key, need);
	char list[160] = "";
	size_t len = 0;

	if (!json_exists(value))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (json_string_is(value, choices[i])) {
			*out = (unsigned)i;
			return true;
		}
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s'%s'",
		    i == 0	     ? ""
		    : i + 1 == count ? " or "
				     : ", ",
		    choices[i]);
		if (len >= sizeof(list))
			len = sizeof(list) - 1;
	}
	fields_fault(s, key, "literal_error", "Input should be %s", list);
	return false;
}

bool
fields_bool(struct fields *s, const char *key, enum need need, bool *out)
{
	struct json value = fields_value(s, key, need);

	if (!json_exists(value))
		return false;
	if (!json_is(value, JSON_BOOL)) {
		fields_fault(s, key, "bool_type", "Input should be a valid boolean");
		return false;
	}
	*out = json_true(value);
	return true;
}

static void
integer_fault(struct fields *s, const char *key, enum lax result)
{
	switch (result) {
	case LAX_OK:
		break;
	case LAX_TYPE:
		fields_fault(s, key, "int_type", "Input should be a valid integer");
		break;
	case LAX_PARSE:
		fields_fault(s, key, "int_parsing",
		    "Input should be a valid integer, unable to parse string as an integer");
		break;
	case LAX_SIZE:
		fields_fault(s, key, "int_parsing_size",
		    "Unable to parse input string as an integer, exceeded maximum size");
		break;
	case LAX_FRACTION:
		fields_fault(s, key, "int_from_float",
		    "Input should be a valid integer, got a number with a fractional part");
		break;
	case LAX_NONFINITE:
		fields_fault(s, key, "finite_number", "Input should be a finite number");
		break;
	}
}

bool
fields_integer(struct fields *s, const char *key, enum need need, const struct integer_range *range,
    int64_t *out)
{
	struct json value = fields_value(s, key, need);
	enum lax result;
	int64_t n = 0;

	if (!json_exists(value))
		return false;
	result = lax_integer(value, &n);
	if (result != LAX_OK) {
		integer_fault(s, key, result);
		return false;
	}
	if (range->above && n <= range->min)
		fields_fault(s, key, "greater_than", "Input should be greater than %lld",
		    (long long)range->min);
	else if (n < range->min)
		fields_fault(s, key, "greater_than_equal",
		    "Input should be greater than or equal to %lld", (long long)range->min);
	else if (n > range->max)
		fields_fault(s, key, "less_than_equal",
		    "Input should be less than or equal to %lld", (long long)range->max);
	else
		*out = n;
	return n >= range->min && n <= range->max && !(range->above && n == range->min);
}

/* Written so that NaN is outside of every range. */
static bool
judge_number(struct fields *s, const char *key, const struct number_range *range, double x)
{
	if (!(range->above ? x > range->min : x >= range->min))
		fields_fault(s, key, range->above ? "greater_than" : "greater_than_equal",
		    "Input should be greater than %s%g", range->above ? "" : "or equal to ",
		    range->min);
	else if (!(range->below ? x < range->max : x <= range->max))
		fields_fault(s, key, range->below ? "less_than" : "less_than_equal",
		    "Input should be less than %s%g", range->below ? "" : "or equal to ",
		    range->max);
	else if (!isfinite(x))
		fields_fault(s, key, "value_error", "Value error, %s must be finite", key);
	else
		return true;
	return false;
}

bool
fields_number(struct fields *s, const char *key, enum need need, const struct number_range *range,
    double *out)
{
	struct json value = fields_value(s, key, need);
	double x = 0;

	if (!json_exists(value))
		return false;
	switch (lax_number(value, &x)) {
	case LAX_OK:
		break;
	case LAX_PARSE:
		fields_fault(s, key, "float_parsing",
		    "Input should be a valid number, unable to parse string as a number");
		return false;
	default:
		fields_fault(s, key, "float_type", "Input should be a valid number");
		return false;
	}
	if (!judge_number(s, key, range, x))
		return false;
	*out = x;
	return true;
}

bool
fields_list(struct fields *s, const char *key, enum need need, const struct element_rule *rule,
    struct json *out)
{
	struct json value = fields_value(s, key, need);
	struct place list = {s->place, key, strlen(key), 0};
	struct place at = {&list, NULL, 0, 0};
	struct faults_mark mark = faults_mark(s->faults);
	bool valid = true;
	size_t good = 0;

	if (!json_exists(value))
		return false;
	if (!json_is(value, JSON_ARRAY)) {
		fields_fault(s, key, "tuple_type", "Input should be a valid tuple");
		return false;
	}
	json_foreach (item, value) {
		bool ok = rule->element(s->faults, &at, item, rule->arg);

		at.index++;
		valid = valid && ok;
		good += ok;
		if (good > rule->max) {
			/* The reference stops here and forgets what it found before. */
			faults_rewind(s->faults, mark);
			fields_fault(s, key, "too_long",
			    "Tuple should have at most %zu item%s after validation, not %zu",
			    rule->max, plural(rule->max), json_count(value));
			return false;
		}
	}
	if (good < rule->min) {
		fields_fault(s, key, "too_short",
		    "Tuple should have at least %zu item%s after validation, not %zu", rule->min,
		    plural(rule->min), good);
		return false;
	}
	s->valid = s->valid && valid;
	*out = value;
	return valid;
}
