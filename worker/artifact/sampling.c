#include "worker/artifact/sampling.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/files/files.h"
#include "worker/tokenizer/tokenizer.h"
#include "worker/artifact/adapter_config.h"
#include "worker/artifact/gzip.h"
#include "worker/artifact/sampling_text.h"
#include "worker/artifact/tar.h"
#include "ipc/tar_read.h"
#include "worker/artifact/tensor_file.h"

static const char config_name[] = "adapter/adapter_config.json";
static const char weights_name[] = "adapter/adapter_model.safetensors";

/* Tokenizer files and whatever else lies beside the adapter may unpack into so much: a bomb is over
   within a second. */
enum { MAX_CONFIG = 1024 * 1024, REST_LIMIT = 1024 * 1024 * 1024 };

static int
no_memory(struct refusal *r)
{
	return refuse(r, 507, "no memory for the adapter's archive");
}

/* Puts what the writer holds as a file and empties the writer. */
static int
put_json(struct gzip_writer *gzip, const char *name, struct json_writer *w, struct refusal *r)
{
	size_t len;
	const char *text = json_writer_text(w, &len);

	if (text != NULL)
		tar_put_file(gzip, name, text, len);
	json_writer_fini(w);
	return text != NULL ? 0 : no_memory(r);
}

static int
put_config(struct gzip_writer *gzip, const struct sampling *s, const struct adapter *a,
    size_t layers, struct refusal *r)
{
	struct json_writer w;

	json_writer_init(&w);
	adapter_config_write(&w, &s->identity, a, layers);
	return put_json(gzip, config_name, &w, r);
}

static int
put_weights(struct gzip_writer *gzip, const struct adapter *a, const float *param, char sha256[65],
    struct refusal *r)
{
	struct tensor_file f;
	struct sha256 hash;
	uint64_t size;
	size_t len;
	void *header;

	tensor_file_init(&f);
	json_put_string(tensor_file_metadata(&f), "format", "pt");
	tensor_file_metadata_end(&f);
	tensor_file_add(&f, "", a);
	size = f.at;
	header = tensor_file_header(&f, &len);
	if (header == NULL)
		return no_memory(r);
	size += len;
	tar_put_header(gzip, weights_name, size);
	sha256_init(&hash);
	sha256_update(&hash, header, len);
	gzip_write(gzip, header, len);
	free(header);
	for (size_t i = 0; i < a->count; i++) {
		const struct adapter_tensor *t = &a->tensors[i];
		size_t bytes = t->rows * t->cols * sizeof(float);

		sha256_update(&hash, param + t->offset, bytes);
		gzip_write(gzip, param + t->offset, bytes);
	}
	tar_put_padding(gzip, size);
	sha256_final_hex(&hash, sha256);
	return 0;
}

static int
put_tokenizer(struct gzip_writer *gzip, const struct model_files *files,
    const struct tokenizer *tokenizer, struct refusal *r)
{
	struct model_tokenizer_file file;
	struct json_writer w;

	for (size_t i = 0; model_files_tokenizer_file(files, i, &file); i++) {
		char name[80];

		snprintf(name, sizeof(name), "adapter/%s", file.name);
		tar_put_file(gzip, name, file.data, file.len);
	}
	if (model_files_gguf(files) == NULL || tokenizer == NULL)
		return 0;
	json_writer_init(&w);
	if (tokenizer_write_json(tokenizer, &w) != 0) {
		json_writer_fini(&w);
		return no_memory(r);
	}
	if (put_json(gzip, "adapter/tokenizer.json", &w, r) != 0)
		return -1;
	json_writer_init(&w);
	sampling_tokenizer_config(&w, files);
	return put_json(gzip, "adapter/tokenizer_config.json", &w, r);
}

static int
put_all(struct gzip_writer *gzip, const struct sampling *s, const struct adapter *a,
    const float *param, const struct model_files *files, const struct tokenizer *tokenizer,
    struct refusal *r)
{
	char weights_sha256[65], *card;
	size_t len;

	if (put_config(gzip, s, a, model_files_config(files)->layer_count, r) != 0 ||
	    put_weights(gzip, a, param, weights_sha256, r) != 0 ||
	    put_tokenizer(gzip, files, tokenizer, r) != 0)
		return -1;
	card = sampling_card(s, weights_sha256, &len);
	if (card == NULL)
		return no_memory(r);
	tar_put_file(gzip, "adapter/README.md", card, len);
	free(card);
	tar_put_end(gzip);
	gzip_writer_finish(gzip);
	return 0;
}

int
sampling_write(int fd, const struct sampling *s, const struct adapter *a, const float *param,
    const struct model_files *files, const struct tokenizer *tokenizer, struct artifact_sum *sum,
    struct refusal *r)
{
	struct artifact_sink sink;
	struct gzip_writer *gzip;
	int result;

	if (tensor_file_finite(a, "", param, r) != 0 || artifact_sink_init(&sink, fd, r) != 0)
		return -1;
	gzip = gzip_writer_new(&sink);
	result = gzip != NULL ? put_all(gzip, s, a, param, files, tokenizer, r) : no_memory(r);
	if (result == 0)
		result = artifact_sink_finish(&sink, sum, r);
	gzip_writer_free(gzip);
	artifact_sink_fini(&sink);
	return result;
}

/* The two members that are read, in memory. */
struct contents {
	char *config, *weights;
	size_t config_len, weights_len;
};

/* Reads a member into memory it allocates; refuses it a second time or above max bytes. */
static int
take_member(struct tar_reader *t, const struct tar_member *m, uint64_t max, char **out, size_t *len,
    struct refusal *r)
{
	if (m->folder)
		return refuse(r, 422, "the archive's %s is a folder", m->name);
	if (*out != NULL)
		return refuse(r, 422, "the archive holds %s twice", m->name);
	if (m->size > max)
		return refuse(r, 422, "the archive's %s has %llu bytes, more than this adapter can",
		    m->name, (unsigned long long)m->size);
	*out = malloc((size_t)m->size + 1);
	if (*out == NULL)
		return no_memory(r);
	*len = (size_t)m->size;
	return tar_read(t, *out, r);
}

/* The most that the weights of an adapter can take in a file. */
static uint64_t
weights_limit(const struct adapter *a)
{
	return a->size * sizeof(float) + SAFETENSORS_MAX_HEADER + 8;
}

static int
read_members(struct tar_reader *t, const struct adapter *a, struct contents *c, struct refusal *r)
{
	const uint64_t max_weights = weights_limit(a);
	struct tar_member m;
	int more = 0;

	while ((more = tar_next(t, &m, r)) == 1) {
		int result = 0;

		if (strcmp(m.name, config_name) == 0)
			result = take_member(t, &m, MAX_CONFIG, &c->config, &c->config_len, r);
		else if (strcmp(m.name, weights_name) == 0)
			result = take_member(t, &m, max_weights, &c->weights, &c->weights_len, r);
		if (result != 0)
			return -1;
	}
	if (more < 0)
		return -1;
	if (c->config == NULL || c->weights == NULL)
		return refuse(r, 422, "the archive has no %s",
		    c->config == NULL ? config_name : weights_name);
	return 0;
}

static int
read_archive(int fd, const struct adapter *a, struct contents *c, struct refusal *r)
{
	struct artifact_view view;
	struct gzip_reader *gzip;
	struct tar_reader *tar;
	int result;

	if (artifact_map(&view, fd, r) != 0)
		return -1;
	gzip = gzip_reader_new(view.data, view.len, weights_limit(a) + REST_LIMIT);
	tar = gzip != NULL ? tar_reader_new(gzip) : NULL;
	result = tar != NULL ? read_members(tar, a, c, r) : no_memory(r);
	tar_reader_free(tar);
	gzip_reader_free(gzip);
	artifact_unmap(&view);
	return result;
}

static int
check_config(const struct contents *c, const struct artifact_identity *want,
    const struct adapter *a, struct refusal *r)
{
	struct json_doc *doc;
	struct json_error error;
	int result = json_parse(&doc, c->config, c->config_len, &error);

	if (result == -ENOMEM)
		return no_memory(r);
	if (result != 0)
		return refuse(r, 422, "adapter_config.json is not valid JSON: %s", error.what);
	result = adapter_config_check(json_root(doc), want, a, r);
	json_free(doc);
	return result;
}

/* Names the first tensor that is none of the adapter's. All of the adapter's are there. */
static int
refuse_others(const struct safetensors *s, const struct adapter *a, struct refusal *r)
{
	const struct safetensors_tensor *t;

	for (size_t i = 0; (t = safetensors_at(s, i)) != NULL; i++) {
		size_t j = 0;

		while (j < a->count && strcmp(t->name, a->tensors[j].key) != 0)
			j++;
		if (j == a->count)
			return refuse(r, 422,
			    "the adapter holds %s, which the session does not adapt", t->name);
	}
	return 0;
}

static int
take_weights(const struct contents *c, const struct adapter *a, float *param, struct refusal *r)
{
	struct safetensors *s;
	char why[300];
	int result = safetensors_open(&s, c->weights, c->weights_len, why, sizeof(why));

	if (result == -ENOMEM)
		return no_memory(r);
	if (result != 0)
		return refuse(r, 422, "adapter_model.safetensors cannot be read: %s", why);
	result = tensor_file_check(s, a, "", true, "the adapter", r);
	if (result == 0 && safetensors_count(s) != a->count)
		result = refuse_others(s, a, r);
	if (result == 0 && param != NULL)
		tensor_file_copy(s, a, "", param);
	safetensors_free(s);
	return result;
}

int
sampling_read(int fd, const struct artifact_identity *want, const struct adapter *a, float *param,
    struct refusal *r)
{
	struct contents c = {NULL, NULL, 0, 0};
	int result = read_archive(fd, a, &c, r);

	if (result == 0)
		result = check_config(&c, want, a, r);
	if (result == 0)
		result = take_weights(&c, a, param, r);
	free(c.config);
	free(c.weights);
	return result;
}
