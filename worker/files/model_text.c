#include "worker/files/model_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json_write.h"

enum { TOKENIZER, TOKENIZER_CONFIG, SPECIAL_MAP, TEMPLATE_JINJA, TEMPLATE_JSON };

const char *const model_text_names[MODEL_TEXT_FILES] = {[TOKENIZER] = "tokenizer.json",
    [TOKENIZER_CONFIG] = "tokenizer_config.json",
    [SPECIAL_MAP] = "special_tokens_map.json",
    [TEMPLATE_JINJA] = "chat_template.jinja",
    [TEMPLATE_JSON] = "chat_template.json",
    [5] = "added_tokens.json",
    [6] = "vocab.json",
    [7] = "merges.txt"};

/* The special tokens that templates know, as Transformers names them, and GGUF's keys for them. */
static const struct {
	const char *name, *gguf;
} specials[] = {
    {"bos_token", "tokenizer.ggml.bos_token_id"},
    {"eos_token", "tokenizer.ggml.eos_token_id"},
    {"unk_token", "tokenizer.ggml.unknown_token_id"},
    {"sep_token", "tokenizer.ggml.seperator_token_id"}, /* so spelled in the format */
    {"pad_token", "tokenizer.ggml.padding_token_id"},
    {"cls_token", "tokenizer.ggml.cls_token_id"},
    {"mask_token", "tokenizer.ggml.mask_token_id"},
};

enum { SPECIALS = sizeof(specials) / sizeof(specials[0]), MAX_EOS = 64 };

static int
parse_file(struct json_doc **out, const struct file_map *m, const char *name, struct refusal *r)
{
	struct json_error error;
	int result;

	*out = NULL;
	if (m->data == NULL)
		return 0;
	result = json_parse(out, m->data, m->len, &error);
	if (result != 0)
		return refuse(r, 422, "%s is not valid JSON: %s", name,
		    result == -EINVAL ? error.what : "no memory");
	if (!json_is(json_root(*out), JSON_OBJECT))
		return refuse(r, 422, "%s is no JSON object", name);
	return 0;
}

/* chat_template as a string, or as a list of {"name", "template"} of which "default" is taken. */
static int
take_template(struct model_text *t, struct json value, const char *file, struct refusal *r)
{
	if (!json_exists(value) || json_is(value, JSON_NULL))
		return 0;
	if (json_is(value, JSON_ARRAY)) {
		struct json found = {NULL, 0};

		json_foreach (item, value)
			if (json_string_is(json_get(item, "name"), "default"))
				found = json_get(item, "template");
		if (!json_exists(found))
			return 0;
		value = found;
	}
	t->template = json_string(value, &t->template_len);
	if (t->template == NULL)
		return refuse(r, 422,
		    "chat_template in %s is neither a string nor a list of templates", file);
	return 0;
}

static int
find_template(struct model_text *t, struct refusal *r)
{
	const struct file_map *jinja = &t->files[TEMPLATE_JINJA];

	if (jinja->data != NULL) {
		t->template = jinja->data;
		t->template_len = jinja->len;
		return 0;
	}
	if (take_template(t, json_get(json_root(t->tokenizer_config), "chat_template"),
		model_text_names[TOKENIZER_CONFIG], r) != 0)
		return -1;
	if (t->template != NULL)
		return 0;
	if (parse_file(&t->other_template, &t->files[TEMPLATE_JSON],
		model_text_names[TEMPLATE_JSON], r) != 0)
		return -1;
	return take_template(t, json_get(json_root(t->other_template), "chat_template"),
	    model_text_names[TEMPLATE_JSON], r);
}

/* The text of a special token: a string, or an object as tokenizers save added tokens. */
static const char *
token_text(struct json value, size_t *len)
{
	return json_string(json_is(value, JSON_OBJECT) ? json_get(value, "content") : value, len);
}

static int
parse_specials(struct model_text *t, struct json_writer *w, struct refusal *r)
{
	size_t len;
	const char *text = json_writer_text(w, &len);
	int result = text != NULL ? json_parse(&t->special, text, len, NULL) : -1;

	json_writer_fini(w);
	return result == 0 ? 0 : refuse(r, 507, "no memory for the special tokens");
}

static void
write_list(struct json_writer *w, const char *name, struct json list)
{
	size_t len;
	const char *text;

	json_write_key(w, name);
	json_write_array(w);
	json_foreach (item, list)
		if ((text = token_text(item, &len)) != NULL)
			json_write_string_n(w, text, len);
	json_write_array_end(w);
}

/* tokenizer_config.json has the say, special_tokens_map.json fills what it leaves open. */
static int
folder_specials(struct model_text *t, struct refusal *r)
{
	static const char more[] = "additional_special_tokens";
	struct json_doc *map;
	struct json_writer w;
	struct json first, second;

	if (parse_file(&map, &t->files[SPECIAL_MAP], model_text_names[SPECIAL_MAP], r) != 0) {
		json_free(map);
		return -1;
	}
	first = json_root(t->tokenizer_config);
	second = json_root(map);
	json_writer_init(&w);
	json_write_object(&w);
	for (size_t i = 0; i < SPECIALS; i++) {
		size_t len;
		const char *text = token_text(json_get(first, specials[i].name), &len);

		if (text == NULL)
			text = token_text(json_get(second, specials[i].name), &len);
		if (text == NULL)
			continue;
		json_write_key(&w, specials[i].name);
		json_write_string_n(&w, text, len);
	}
	if (json_is(json_get(first, more), JSON_ARRAY))
		write_list(&w, more, json_get(first, more));
	else if (json_is(json_get(second, more), JSON_ARRAY))
		write_list(&w, more, json_get(second, more));
	json_write_object_end(&w);
	json_free(map);
	return parse_specials(t, &w, r);
}

static int
add_eos(struct model_text *t, int64_t id, const char *where, struct refusal *r)
{
	if (id < 0 || id > INT32_MAX || t->eos_count == MAX_EOS)
		return refuse(
		    r, 422, "eos_token_id in %s is not a token id, or they are too many", where);
	for (size_t i = 0; i < t->eos_count; i++)
		if (t->eos[i] == id)
			return 0;
	t->eos[t->eos_count++] = (int32_t)id;
	return 0;
}

static int
take_eos(struct model_text *t, struct json value, const char *file, struct refusal *r)
{
	int64_t id = -1;

	if (json_is(value, JSON_ARRAY)) {
		json_foreach (item, value)
			if (!json_int64(item, &id) || add_eos(t, id, file, r) != 0)
				return add_eos(t, -1, file, r);
		return 0;
	}
	if (!json_exists(value) || json_is(value, JSON_NULL))
		return 0;
	return json_int64(value, &id) ? add_eos(t, id, file, r) : add_eos(t, -1, file, r);
}

/* generation_config.json says when to stop; config.json where it does not. */
static int
folder_eos(struct model_text *t, const char *dir, struct json config, struct refusal *r)
{
	static const char name[] = "generation_config.json";
	struct json_doc *doc;
	struct file_map map;
	int result = file_map_small(&map, dir, name, r);

	if (result < 0)
		return -1;
	result = parse_file(&doc, &map, name, r);
	file_map_close(&map);
	if (result == 0)
		result = take_eos(t, json_get(json_root(doc), "eos_token_id"), name, r);
	json_free(doc);
	if (result == 0 && t->eos_count == 0)
		result = take_eos(t, json_get(config, "eos_token_id"), "config.json", r);
	return result;
}

static int
prepare(struct model_text *t, struct refusal *r)
{
	memset(t, 0, sizeof(*t));
	t->eos = calloc(MAX_EOS, sizeof(t->eos[0]));
	return t->eos != NULL ? 0 : refuse(r, 507, "no memory for the model's tokens");
}

int
model_text_from_folder(struct model_text *t, const char *dir, struct json config, struct refusal *r)
{
	if (prepare(t, r) != 0)
		return -1;
	for (size_t i = 0; i < MODEL_TEXT_FILES; i++)
		if (file_map_small(&t->files[i], dir, model_text_names[i], r) < 0)
			return -1;
	if (parse_file(&t->tokenizer_config, &t->files[TOKENIZER_CONFIG],
		model_text_names[TOKENIZER_CONFIG], r) != 0 ||
	    find_template(t, r) != 0 || folder_specials(t, r) != 0)
		return -1;
	return folder_eos(t, dir, config, r);
}

/* The text of token `id` of a GGUF vocabulary. */
static bool
gguf_token(const struct gguf *g, uint64_t id, const char **text, size_t *len)
{
	struct gguf_array tokens;

	if (!gguf_strings(g, "tokenizer.ggml.tokens", &tokens) || id >= tokens.count)
		return false;
	for (uint64_t i = 0; i <= id; i++)
		gguf_next_string(&tokens, text, len);
	return true;
}

int
model_text_from_gguf(struct model_text *t, const struct gguf *g, struct refusal *r)
{
	static const char *const ends[] = {
	    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
	struct json_writer w;
	uint64_t id;

	if (prepare(t, r) != 0)
		return -1;
	gguf_string(g, "tokenizer.chat_template", &t->template, &t->template_len);
	json_writer_init(&w);
	json_write_object(&w);
	for (size_t i = 0; i < SPECIALS; i++) {
		const char *text;
		size_t len;

		if (!gguf_uint(g, specials[i].gguf, &id) || !gguf_token(g, id, &text, &len))
			continue;
		json_write_key(&w, specials[i].name);
		json_write_string_n(&w, text, len);
	}
	json_write_object_end(&w);
	if (parse_specials(t, &w, r) != 0)
		return -1;
	for (size_t i = 0; i < 2; i++)
		if (gguf_uint(g, ends[i], &id) && id <= INT32_MAX &&
		    add_eos(t, (int64_t)id, "the GGUF file", r) != 0)
			return -1;
	return 0;
}

void
model_text_fini(struct model_text *t)
{
	for (size_t i = 0; i < MODEL_TEXT_FILES; i++)
		file_map_close(&t->files[i]);
	json_free(t->special);
	json_free(t->tokenizer_config);
	json_free(t->other_template);
	free(t->eos);
	memset(t, 0, sizeof(*t));
}
