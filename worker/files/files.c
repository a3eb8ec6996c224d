#include "worker/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "worker/files/model_text.h"
#include "worker/files/weight_read.h"
#include "worker/files/weights.h"

struct model_files {
	struct model_config config;
	struct weights weights;
	struct model_text text;
	struct file_map gguf_map;
	struct gguf *gguf; /* NULL for a folder of Transformers */
	pthread_mutex_t digest_lock;
	char digest[65]; /* "" until it was asked for */
};

static int
open_gguf(struct model_files *f, const char *dir, const char *name, struct refusal *r)
{
	int result = file_map_open(&f->gguf_map, dir, name, r);

	if (result == 1)
		return refuse(r, 422, "there is no model file %s", file_base_name(name));
	if (result != 0)
		return -1;
	madvise((void *)(uintptr_t)f->gguf_map.data, f->gguf_map.len, MADV_WILLNEED);
	if (gguf_open(&f->gguf, f->gguf_map.data, f->gguf_map.len, file_base_name(name), r) != 0 ||
	    model_config_from_gguf(&f->config, f->gguf, r) != 0 ||
	    weights_from_gguf(&f->weights, f->gguf, &f->config, r) != 0)
		return -1;
	return model_text_from_gguf(&f->text, f->gguf, r);
}

static int
open_folder(
    struct model_files *f, const char *dir, const struct file_map *config, struct refusal *r)
{
	struct json_doc *doc;
	struct json_error error;
	int result = json_parse(&doc, config->data, config->len, &error);

	if (result != 0)
		return refuse(r, 422, "config.json is not valid JSON: %s",
		    result == -EINVAL ? error.what : "no memory");
	result = model_config_from_json(&f->config, json_root(doc), r);
	if (result == 0)
		result = weights_from_folder(&f->weights, dir, &f->config, r);
	if (result == 0)
		result = model_text_from_folder(&f->text, dir, json_root(doc), r);
	json_free(doc);
	return result;
}

static bool
is_gguf_name(const char *name)
{
	size_t len = strlen(name);

	return len > 5 && name[0] != '.' && strcmp(name + len - 5, ".gguf") == 0;
}

/* A folder without config.json: exactly one GGUF file has to be there. */
static int
open_single_gguf(struct model_files *f, const char *dir, struct refusal *r)
{
	char name[NAME_MAX + 1] = "";
	size_t count = 0;
	struct dirent *entry;
	DIR *d = opendir(dir);

	if (d == NULL)
		return refuse(r, 422, "the model's folder cannot be read: %s", strerror(errno));
	while ((entry = readdir(d)) != NULL) {
		if (!is_gguf_name(entry->d_name))
			continue;
		count++;
		snprintf(name, sizeof(name), "%s", entry->d_name);
	}
	closedir(d);
	if (count == 1)
		return open_gguf(f, dir, name, r);
	if (count == 0)
		return refuse(r, 422, "the model's folder has neither config.json nor a GGUF file");
	return refuse(r, 422,
	    "the model's folder has %zu GGUF files and no config.json: name one "
	    "of them",
	    count);
}

static int
open_path(struct model_files *f, const char *path, struct refusal *r)
{
	struct file_map config;
	struct stat st;
	int result;

	if (stat(path, &st) != 0)
		return refuse(
		    r, 422, "there is no model %s: %s", file_base_name(path), strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return open_gguf(f, "", path, r);
	result = file_map_small(&config, path, "config.json", r);
	if (result < 0)
		return -1;
	if (result == 1)
		return open_single_gguf(f, path, r);
	result = open_folder(f, path, &config, r);
	file_map_close(&config);
	return result;
}

int
model_files_open(struct model_files **out, const char *path, struct refusal *r)
{
	struct model_files *f = calloc(1, sizeof(*f));

	*out = NULL;
	if (f == NULL)
		return refuse(r, 507, "no memory for the model's files");
	pthread_mutex_init(&f->digest_lock, NULL);
	if (open_path(f, path, r) != 0) {
		model_files_free(f);
		return -1;
	}
	*out = f;
	return 0;
}

void
model_files_free(struct model_files *f)
{
	if (f == NULL)
		return;
	model_text_fini(&f->text);
	weights_fini(&f->weights);
	model_config_fini(&f->config);
	gguf_free(f->gguf);
	file_map_close(&f->gguf_map);
	pthread_mutex_destroy(&f->digest_lock);
	free(f);
}

const struct model_config *
model_files_config(const struct model_files *f)
{
	return &f->config;
}

bool
model_files_has(const struct model_files *f, const char *name)
{
	return weights_find(&f->weights, name) != NULL;
}

bool
model_files_shape(const struct model_files *f, const char *name, size_t *rows, size_t *cols)
{
	const struct weight *w = weights_find(&f->weights, name);

	if (w == NULL)
		return false;
	*rows = w->rows;
	*cols = w->cols;
	return true;
}

int
model_files_read(const struct model_files *f, const char *name, void *out, enum op_dtype as,
    size_t rows, size_t cols, struct refusal *r)
{
	const struct weight *w = weights_find(&f->weights, name);

	if (w != NULL && w->rows != rows)
		return refuse(r, 422, "the model's %s has %zu rows, not %zu", name, w->rows, rows);
	return model_files_read_rows(f, name, out, as, 0, rows, cols, r);
}

/* The tensor, if it has those rows; else NULL with *r. */
static const struct weight *
find_rows(const struct model_files *f, const char *name, size_t first, size_t count, size_t cols,
    struct refusal *r)
{
	const struct weight *w = weights_find(&f->weights, name);

	if (w == NULL)
		refuse(r, 422, "the model's files have no %s", name);
	else if (w->cols != cols || first > w->rows || count > w->rows - first)
		refuse(r, 422, "the model's %s is %zu x %zu", name, w->rows, w->cols);
	else
		return w;
	return NULL;
}

int
model_files_read_rows(const struct model_files *f, const char *name, void *out, enum op_dtype as,
    size_t first, size_t count, size_t cols, struct refusal *r)
{
	const struct weight *w = find_rows(f, name, first, count, cols, r);

	if (w == NULL)
		return -1;
	if (weight_read(w, out, as, first, count) != 0)
		return refuse(r, 507, "no memory to read %s", name);
	return 0;
}

bool
model_files_stored(const struct model_files *f, const char *name, enum dequant_type *type)
{
	const struct weight *w = weights_find(&f->weights, name);

	if (w == NULL || w->vector)
		return false;
	*type = w->type;
	return true;
}

int
model_files_copy_rows(const struct model_files *f, const char *name, void *out, size_t first,
    size_t count, size_t cols, struct refusal *r)
{
	const struct weight *w = find_rows(f, name, first, count, cols, r);

	if (w == NULL)
		return -1;
	weight_copy(w, out, first, count);
	return 0;
}

static void
release(const struct file_map *m)
{
	if (m->data != NULL)
		madvise((void *)(uintptr_t)m->data, m->len, MADV_DONTNEED);
}

void
model_files_release(const struct model_files *f)
{
	release(&f->gguf_map);
	for (size_t i = 0; i < f->weights.shard_count; i++)
		release(&f->weights.shards[i].map);
}

const char *
model_files_chat_template(const struct model_files *f, size_t *len)
{
	*len = f->text.template_len;
	return f->text.template;
}

const void *
model_files_tokenizer_json(const struct model_files *f, size_t *len)
{
	*len = f->text.files[0].len;
	return f->text.files[0].data;
}

const struct gguf *
model_files_gguf(const struct model_files *f)
{
	return f->gguf;
}

struct json
model_files_special_tokens(const struct model_files *f)
{
	return json_root(f->text.special);
}

const int32_t *
model_files_eos(const struct model_files *f, size_t *count)
{
	*count = f->text.eos_count;
	return f->text.eos;
}

int
model_files_digest(const struct model_files *f, char hex[65], struct refusal *r)
{
	struct model_files *own = (struct model_files *)(uintptr_t)f; /* the digest is a cache */
	int result = 0;

	pthread_mutex_lock(&own->digest_lock);
	if (own->digest[0] == '\0') {
		result = weights_digest(&f->weights, own->digest);
		model_files_release(f);
	}
	memcpy(hex, own->digest, sizeof(own->digest));
	pthread_mutex_unlock(&own->digest_lock);
	return result == 0 ? 0 : refuse(r, 507, "no memory for the digest of the model");
}

bool
model_files_tokenizer_file(
    const struct model_files *f, size_t index, struct model_tokenizer_file *out)
{
	for (size_t i = 0; i < MODEL_TEXT_FILES; i++) {
		const struct file_map *m = &f->text.files[i];

		if (m->data == NULL || index-- != 0)
			continue;
		*out = (struct model_tokenizer_file){model_text_names[i], m->data, m->len};
		return true;
	}
	return false;
}
