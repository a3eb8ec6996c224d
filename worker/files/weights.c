#include "worker/files/weights.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct weight *)a)->name, ((const struct weight *)b)->name);
}

const struct weight *
weights_find(const struct weights *w, const char *name)
{
	struct weight key = {.name = name};

	return bsearch(&key, w->list, w->count, sizeof(w->list[0]), by_name);
}

static int
prepare(struct weights *w, const struct model_config *c, struct refusal *r)
{
	memset(w, 0, sizeof(*w));
	if (model_tensors(&w->wanted, &w->count, c, r) != 0)
		return -1;
	w->list = calloc(w->count, sizeof(w->list[0]));
	if (w->list == NULL)
		return refuse(r, 507, "no memory for the list of the model's tensors");
	for (size_t i = 0; i < w->count; i++) {
		const struct model_tensor *t = &w->wanted[i];

		w->list[i] = (struct weight){
		    .name = t->name, .rows = t->rows, .cols = t->cols, .vector = t->vector};
	}
	return 0;
}

static void
finish(struct weights *w)
{
	for (size_t i = 0; i < w->count; i++) {
		const struct dequant_format *f = dequant_format(w->list[i].type);

		w->list[i].row_bytes = w->list[i].cols / f->block * f->bytes;
	}
	qsort(w->list, w->count, sizeof(w->list[0]), by_name);
}

static bool
has_prefix(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Tensors of a folder that may lie there unread. */
static bool
is_unread(const struct model_config *c, const char *name)
{
	static const char inv_freq[] = ".rotary_emb.inv_freq"; /* old files kept it: recomputed */
	size_t len = strlen(name), tail = sizeof(inv_freq) - 1;

	if (c->tied_head && strcmp(name, "lm_head.weight") == 0)
		return true;
	if (len > tail && strcmp(name + len - tail, inv_freq) == 0)
		return true;
	for (const char *const *p = c->skipped; *p != NULL; p++)
		if (has_prefix(name, *p))
			return true;
	return false;
}

static int
bind_safetensors(
    struct weight *w, const struct safetensors_tensor *t, const char *file, struct refusal *r)
{
	bool fits = w->vector ? t->dims == 1 && t->shape[0] == w->cols
			      : t->dims == 2 && t->shape[0] == w->rows && t->shape[1] == w->cols;

	if (!fits)
		return refuse(r, 422, "%s in %s has not the shape %zu x %zu that config.json gives",
		    w->name, file, w->rows, w->cols);
	switch (t->dtype) {
	case SAFETENSORS_F32:
		w->type = DEQUANT_F32;
		break;
	case SAFETENSORS_F16:
		w->type = DEQUANT_F16;
		break;
	case SAFETENSORS_BF16:
		w->type = DEQUANT_BF16;
		break;
	default:
		return refuse(r, 422, "%s in %s is stored as %s; F32, F16 and BF16 are supported",
		    w->name, file, safetensors_dtype_name(t->dtype));
	}
	w->data = t->data;
	return 0;
}

static int
open_shard(struct weight_shard *s, const char *dir, const char *name, struct refusal *r)
{
	char why[400];
	int result;

	s->name = strdup(name);
	if (s->name == NULL)
		return refuse(r, 507, "no memory for the list of the model's files");
	result = file_map_open(&s->map, dir, name, r);
	if (result < 0)
		return -1;
	if (result == 1)
		return refuse(r, 422, "the model's file %s is missing", name);
	result = safetensors_open(&s->tensors, s->map.data, s->map.len, why, sizeof(why));
	if (result != 0)
		return refuse(r, 422, "%s: %s", name, result == -ENOMEM ? "no memory" : why);
	madvise((void *)(uintptr_t)s->map.data, s->map.len, MADV_WILLNEED);
	return 0;
}

static struct weight_shard *
find_shard(struct weights *w, const char *name)
{
	for (size_t i = 0; i < w->shard_count; i++)
		if (strcmp(w->shards[i].name, name) == 0)
			return &w->shards[i];
	return NULL;
}

enum { MAX_SHARDS = 4096 };

/* Opens every file that the index names; each tensor of the index has to be in its file. */
static int
open_by_index(struct weights *w, const char *dir, struct json map, struct refusal *r)
{
	if (!json_is(map, JSON_OBJECT) || json_count(map) == 0)
		return refuse(r, 422, "model.safetensors.index.json has no weight_map");
	w->shards = calloc(MAX_SHARDS, sizeof(w->shards[0]));
	if (w->shards == NULL)
		return refuse(r, 507, "no memory for the list of the model's files");
	json_foreach (item, map) {
		const char *file = json_string(item, NULL), *name = json_key(item, NULL);
		struct weight_shard *s;

		if (file == NULL || file[0] == '\0' || file[0] == '.' || strchr(file, '/') != NULL)
			return refuse(r, 422,
			    "model.safetensors.index.json puts %.120s in something that is no "
			    "file name",
			    name);
		s = find_shard(w, file);
		if (s == NULL && w->shard_count == MAX_SHARDS)
			return refuse(r, 422, "the model has more than %d files", MAX_SHARDS);
		if (s == NULL) {
			s = &w->shards[w->shard_count++];
			if (open_shard(s, dir, file, r) != 0)
				return -1;
		}
		if (safetensors_find(s->tensors, name) == NULL)
			return refuse(r, 422,
			    "model.safetensors.index.json says that %.120s holds %.120s, but it "
			    "does not",
			    file, name);
	}
	return 0;
}

static int
open_shards(struct weights *w, const char *dir, struct refusal *r)
{
	struct json_doc *index;
	struct file_map map;
	struct json_error error;
	int result = file_map_open(&map, dir, "model.safetensors", r);

	file_map_close(&map);
	if (result < 0)
		return -1;
	if (result == 0) {
		w->shards = calloc(1, sizeof(w->shards[0]));
		if (w->shards == NULL)
			return refuse(r, 507, "no memory for the list of the model's files");
		w->shard_count = 1;
		return open_shard(&w->shards[0], dir, "model.safetensors", r);
	}
	result = file_map_small(&map, dir, "model.safetensors.index.json", r);
	if (result < 0)
		return -1;
	if (result == 1)
		return refuse(r, 422,
		    "the model's folder has neither model.safetensors nor "
		    "model.safetensors.index.json");
	result = json_parse(&index, map.data, map.len, &error);
	file_map_close(&map);
	if (result != 0)
		return refuse(r, 422, "model.safetensors.index.json is not valid JSON: %s",
		    result == -ENOMEM ? "no memory" : error.what);
	result = open_by_index(w, dir, json_get(json_root(index), "weight_map"), r);
	json_free(index);
	return result;
}

static int
bind_folder(struct weights *w, struct refusal *r)
{
	for (size_t i = 0; i < w->count; i++) {
		struct weight *weight = &w->list[i];

		for (size_t j = 0; j < w->shard_count; j++) {
			const struct weight_shard *s = &w->shards[j];
			const struct safetensors_tensor *t =
			    safetensors_find(s->tensors, weight->name);

			if (t != NULL && weight->data != NULL)
				return refuse(r, 422, "%s is in %s and in another file too",
				    weight->name, s->name);
			if (t != NULL && bind_safetensors(weight, t, s->name, r) != 0)
				return -1;
		}
		if (weight->data == NULL)
			return refuse(r, 422, "the model's files have no %s", weight->name);
	}
	finish(w);
	return 0;
}

static int
refuse_unknown(const struct weights *w, const struct model_config *c, struct refusal *r)
{
	for (size_t i = 0; i < w->shard_count; i++) {
		const struct safetensors_tensor *t;

		for (size_t j = 0; (t = safetensors_at(w->shards[i].tensors, j)) != NULL; j++)
			if (weights_find(w, t->name) == NULL && !is_unread(c, t->name))
				return refuse(r, 422,
				    "%s holds %s, which the model's configuration has no use for",
				    w->shards[i].name, t->name);
	}
	return 0;
}

int
weights_from_folder(
    struct weights *w, const char *dir, const struct model_config *c, struct refusal *r)
{
	if (prepare(w, c, r) != 0 || open_shards(w, dir, r) != 0 || bind_folder(w, r) != 0)
		return -1;
	return refuse_unknown(w, c, r);
}

int
weights_from_gguf(
    struct weights *w, const struct gguf *g, const struct model_config *c, struct refusal *r)
{
	const struct gguf_tensor *t;
	size_t bound = 0;

	if (prepare(w, c, r) != 0)
		return -1;
	for (size_t i = 0; i < w->count; i++) {
		const struct model_tensor *want = &w->wanted[i];

		t = gguf_tensor(g, want->gguf);
		if (t == NULL)
			return refuse(r, 422, "the GGUF file has no %s", want->gguf);
		if (t->rows != want->rows || t->cols != want->cols)
			return refuse(r, 422,
			    "%s of the GGUF file is %zu x %zu, not the %zu x %zu "
			    "that its metadata gives",
			    want->gguf, t->rows, t->cols, want->rows, want->cols);
		w->list[i].type = (enum dequant_type)t->type;
		w->list[i].data = t->data;
		w->list[i].heads = want->heads;
		bound++;
	}
	bound += gguf_tensor(g, "rope_freqs.weight") != NULL; /* config_rope.c reads it */
	for (size_t i = 0; bound < gguf_tensor_count(g) && i < gguf_tensor_count(g); i++) {
		bool wanted = strcmp(gguf_tensor_at(g, i)->name, "rope_freqs.weight") == 0;

		for (size_t j = 0; j < w->count && !wanted; j++)
			wanted = strcmp(w->wanted[j].gguf, gguf_tensor_at(g, i)->name) == 0;
		if (!wanted)
			return refuse(r, 422,
			    "the GGUF file holds %s, which its architecture has no use for",
			    gguf_tensor_at(g, i)->name);
	}
	finish(w);
	return 0;
}

void
weights_fini(struct weights *w)
{
	for (size_t i = 0; i < w->shard_count; i++) {
		safetensors_free(w->shards[i].tensors);
		file_map_close(&w->shards[i].map);
		free(w->shards[i].name);
	}
	free(w->shards);
	free(w->list);
	free(w->wanted);
	memset(w, 0, sizeof(*w));
}
