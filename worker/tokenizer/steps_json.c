#include "worker/tokenizer/steps_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/chars.h"
#include "worker/tokenizer/pretokenize.h"

const char *const steps_part_names[] = {"normalizer", "pre_tokenizer", "post_processor", "decoder"};

enum { MAX_STEPS = 64, MAX_PATH = 160 };

struct reading {
	struct steps *steps;
	enum steps_part part;
	struct refusal *r;
	char path[MAX_PATH]; /* of the value at hand: "decoder.decoders[2]" */
};

static int
refuse_field(const struct reading *in, const char *field, const char *what)
{
	return refuse(in->r, 422, "tokenizer.json: %s.%s %s", in->path, field, what);
}

static int
read_bool(const struct reading *in, struct json v, const char *field, bool absent, bool *out)
{
	struct json value = json_get(v, field);

	if (json_exists(value) && !json_is(value, JSON_BOOL))
		return refuse_field(in, field, "is not true or false");
	*out = json_exists(value) ? json_true(value) : absent;
	return 0;
}

static int
read_text(const struct reading *in, struct json v, const char *field, struct step *step)
{
	const char *text = json_string(json_get(v, field), &step->text_len);

	if (text == NULL)
		return refuse_field(in, field, "is not a string");
	step->text = malloc(step->text_len + 1);
	if (step->text == NULL)
		return refuse_memory(in->r);
	memcpy(step->text, text, step->text_len + 1);
	return 0;
}

static int
read_point(const struct reading *in, struct json v, const char *field, struct step *step)
{
	size_t len, n = 0;
	const char *text = json_string(json_get(v, field), &len);

	if (text != NULL && len > 0)
		step->point = char_at(text, &n);
	if (text == NULL || n != len || len == 0)
		return refuse_field(in, field, "is not one character");
	return 0;
}

static int
read_count(const struct reading *in, struct json v, const char *field, uint32_t *out)
{
	int64_t value;

	if (!json_int64(json_get(v, field), &value) || value < 0 || value > INT32_MAX)
		return refuse_field(in, field, "is not a count");
	*out = (uint32_t)value;
	return 0;
}

/* {"Regex": "..."} or {"String": "..."}. */
static int
read_pattern(const struct reading *in, struct json v, struct step *step)
{
	struct json pattern = json_get(v, "pattern");
	bool literal = json_exists(json_get(pattern, "String"));
	char where[MAX_PATH + 32];
	size_t len;
	const char *source = json_string(json_get(pattern, literal ? "String" : "Regex"), &len);

	if (source == NULL)
		return refuse_field(in, "pattern", "is neither a String nor a Regex");
	snprintf(where, sizeof(where), "tokenizer.json: %s.pattern", in->path);
	return pattern_compile(&step->pattern, source, len, literal, where, in->r);
}

static int
read_behaviour(const struct reading *in, struct json v, bool optional, struct step *step)
{
	static const char *const names[] = {[BEHAVIOUR_REMOVED] = "Removed",
	    [BEHAVIOUR_ISOLATED] = "Isolated",
	    [BEHAVIOUR_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
	    [BEHAVIOUR_MERGED_WITH_NEXT] = "MergedWithNext",
	    [BEHAVIOUR_CONTIGUOUS] = "Contiguous"};
	struct json value = json_get(v, "behavior");

	step->behaviour = BEHAVIOUR_ISOLATED;
	if (!json_exists(value) && optional)
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (json_string_is(value, names[i])) {
			step->behaviour = (enum behaviour)i;
			return 0;
		}
	return refuse_field(in, "behavior", "is not known");
}

static int
read_replace(const struct reading *in, struct json v, struct step *step)
{
	return read_pattern(in, v, step) != 0 ? -1 : read_text(in, v, "content", step);
}

static int
read_prepend(const struct reading *in, struct json v, struct step *step)
{
	return read_text(in, v, "prepend", step);
}

static int
read_split(const struct reading *in, struct json v, struct step *step)
{
	if (read_pattern(in, v, step) != 0 || read_behaviour(in, v, false, step) != 0)
		return -1;
	return read_bool(in, v, "invert", false, &step->invert);
}

static int
read_byte_level(const struct reading *in, struct json v, struct step *step)
{
	bool cut;

	if (read_bool(in, v, "add_prefix_space", true, &step->prefix_space) != 0 ||
	    read_bool(in, v, "use_regex", true, &cut) != 0)
		return -1;
	if (!cut)
		return 0;
	return pattern_compile(&step->pattern, pretokenize_gpt2_pattern,
	    strlen(pretokenize_gpt2_pattern), false, "ByteLevel", in->r);
}

static int
read_digits(const struct reading *in, struct json v, struct step *step)
{
	return read_bool(in, v, "individual_digits", false, &step->individual);
}

static int
read_punctuation(const struct reading *in, struct json v, struct step *step)
{
	return read_behaviour(in, v, true, step);
}

static int
read_delimiter(const struct reading *in, struct json v, struct step *step)
{
	return read_point(in, v, "delimiter", step);
}

static int
read_metaspace(const struct reading *in, struct json v, struct step *step)
{
	struct json scheme = json_get(v, "prepend_scheme");
	bool prefix;

	if (read_point(in, v, "replacement", step) != 0 ||
	    read_text(in, v, "replacement", step) != 0 ||
	    read_bool(in, v, "add_prefix_space", true, &prefix) != 0 ||
	    read_bool(in, v, "split", true, &step->split) != 0)
		return -1;
	if (json_exists(scheme) && !json_string_is(scheme, "first") &&
	    !json_string_is(scheme, "always") && !json_string_is(scheme, "never"))
		return refuse_field(in, "prepend_scheme", "is not known");
	step->first_only = json_string_is(scheme, "first");
	step->prefix_space = prefix && !json_string_is(scheme, "never");
	return 0;
}

static int
read_trim(const struct reading *in, struct json v, struct step *step)
{
	return read_bool(in, v, "add_prefix_space", true, &step->prefix_space);
}

static int
read_strip(const struct reading *in, struct json v, struct step *step)
{
	if (read_point(in, v, "content", step) != 0 ||
	    read_count(in, v, "start", &step->strip_start) != 0)
		return -1;
	return read_count(in, v, "stop", &step->strip_end);
}

static int
read_suffix(const struct reading *in, struct json v, struct step *step)
{
	return read_text(in, v, "suffix", step);
}

static const struct {
	enum steps_part part;
	const char *type;
	enum step_kind kind;
	int (*read)(const struct reading *, struct json, struct step *); /* NULL: no settings */
} kinds[] = {
    {PART_NORMALIZER, "NFC", NORMAL_NFC, NULL},
    {PART_NORMALIZER, "NFD", NORMAL_NFD, NULL},
    {PART_NORMALIZER, "NFKC", NORMAL_NFKC, NULL},
    {PART_NORMALIZER, "NFKD", NORMAL_NFKD, NULL},
    {PART_NORMALIZER, "Lowercase", NORMAL_LOWERCASE, NULL},
    {PART_NORMALIZER, "Replace", NORMAL_REPLACE, read_replace},
    {PART_NORMALIZER, "Prepend", NORMAL_PREPEND, read_prepend},
    {PART_NORMALIZER, "ByteLevel", NORMAL_BYTE_LEVEL, NULL},
    {PART_PRE_TOKENIZER, "Split", SPLIT_PATTERN, read_split},
    {PART_PRE_TOKENIZER, "ByteLevel", SPLIT_BYTE_LEVEL, read_byte_level},
    {PART_PRE_TOKENIZER, "Digits", SPLIT_DIGITS, read_digits},
    {PART_PRE_TOKENIZER, "Punctuation", SPLIT_PUNCTUATION, read_punctuation},
    {PART_PRE_TOKENIZER, "Whitespace", SPLIT_WHITESPACE, NULL},
    {PART_PRE_TOKENIZER, "WhitespaceSplit", SPLIT_AT_WHITESPACE, NULL},
    {PART_PRE_TOKENIZER, "Delimiter", SPLIT_DELIMITER, read_delimiter},
    {PART_PRE_TOKENIZER, "CharDelimiterSplit", SPLIT_DELIMITER, read_delimiter},
    {PART_PRE_TOKENIZER, "Metaspace", SPLIT_METASPACE, read_metaspace},
    {PART_POST_PROCESSOR, "ByteLevel", POST_TRIM, read_trim},
    {PART_POST_PROCESSOR, "RobertaProcessing", POST_TRIM, read_trim},
    {PART_DECODER, "ByteLevel", DECODE_BYTE_LEVEL, NULL},
    {PART_DECODER, "ByteFallback", DECODE_BYTE_FALLBACK, NULL},
    {PART_DECODER, "Fuse", DECODE_FUSE, NULL},
    {PART_DECODER, "Replace", DECODE_REPLACE, read_replace},
    {PART_DECODER, "Strip", DECODE_STRIP, read_strip},
    {PART_DECODER, "Metaspace", DECODE_METASPACE, read_metaspace},
    {PART_DECODER, "BPEDecoder", DECODE_SUFFIX, read_suffix},
};

/* Post-processors that do nothing where no special tokens are added and offsets are not trimmed. */
static bool
does_nothing(enum steps_part part, struct json v)
{
	struct json type = json_get(v, "type");

	if (part != PART_POST_PROCESSOR)
		return false;
	if (json_string_is(type, "TemplateProcessing") || json_string_is(type, "BertProcessing"))
		return true;
	return (json_string_is(type, "ByteLevel") || json_string_is(type, "RobertaProcessing")) &&
	       json_is(json_get(v, "trim_offsets"), JSON_BOOL) &&
	       !json_true(json_get(v, "trim_offsets"));
}

static int
read_step(struct reading *in, struct json v)
{
	const char *type = json_string(json_get(v, "type"), NULL);
	struct step *step;

	if (does_nothing(in->part, v))
		return 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (kinds[i].part != in->part || strcmp(kinds[i].type, type) != 0)
			continue;
		if (in->steps->count == MAX_STEPS)
			return refuse_field(in, "type", "is one step too many");
		if (!grow_array(
			&in->steps->list, &in->steps->size, in->steps->count + 1, sizeof(*step)))
			return refuse_memory(in->r);
		step = &in->steps->list[in->steps->count++];
		*step = (struct step){.kind = kinds[i].kind};
		return kinds[i].read == NULL ? 0 : kinds[i].read(in, v, step);
	}
	return refuse(
	    in->r, 422, "tokenizer.json: %s.type: %.60s is not supported", in->path, type);
}

static int
read_value(struct reading *in, struct json v)
{
	static const char *const lists[] = {
	    "normalizers", "pretokenizers", "processors", "decoders"};
	struct json list;
	size_t len = strlen(in->path), index = 0;

	if (!json_is(v, JSON_OBJECT) || !json_is(json_get(v, "type"), JSON_STRING))
		return refuse(
		    in->r, 422, "tokenizer.json: %s is not an object with a type", in->path);
	if (!json_string_is(json_get(v, "type"), "Sequence"))
		return read_step(in, v);
	list = json_get(v, lists[in->part]);
	if (!json_is(list, JSON_ARRAY))
		return refuse_field(in, lists[in->part], "is not an array");
	json_foreach (item, list) {
		/* Sequences in sequences cut the path, never the reading. */
		snprintf(
		    in->path + len, sizeof(in->path) - len, ".%s[%zu]", lists[in->part], index++);
		if (read_value(in, item) != 0)
			return -1;
	}
	in->path[len] = '\0';
	return 0;
}

int
steps_read(struct steps *s, enum steps_part part, struct json value, struct refusal *r)
{
	struct reading in = {.steps = s, .part = part, .r = r};

	if (!json_exists(value) || json_is(value, JSON_NULL))
		return 0;
	snprintf(in.path, sizeof(in.path), "%s", steps_part_names[part]);
	return read_value(&in, value);
}
