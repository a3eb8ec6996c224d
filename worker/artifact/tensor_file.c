#include "worker/artifact/tensor_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dequant.h"

enum { NAME_SIZE = 512, SHAPE_SIZE = 128 };

/* prefix + key of a tensor; false if it does not fit (keys of adapters are shorter). */
static bool
full_name(char name[NAME_SIZE], const char *prefix, const char *key)
{
	return snprintf(name, NAME_SIZE, "%s%s", prefix, key) < NAME_SIZE;
}

void
tensor_file_init(struct tensor_file *f)
{
	f->at = 0;
	json_writer_init(&f->json);
	json_write_object(&f->json);
}

struct json_writer *
tensor_file_metadata(struct tensor_file *f)
{
	json_write_key(&f->json, "__metadata__");
	json_write_object(&f->json);
	return &f->json;
}

void
tensor_file_metadata_end(struct tensor_file *f)
{
	json_write_object_end(&f->json);
}

static void
add_tensor(struct tensor_file *f, const char *name, const struct adapter_tensor *t)
{
	struct json_writer *w = &f->json;

	json_write_key(w, name);
	json_write_object(w);
	json_put_string(w, "dtype", "F32");
	json_write_key(w, "shape");
	json_write_array(w);
	json_write_uint(w, t->rows);
	json_write_uint(w, t->cols);
	json_write_array_end(w);
	json_write_key(w, "data_offsets");
	json_write_array(w);
	json_write_uint(w, f->at);
	f->at += t->rows * t->cols * sizeof(float);
	json_write_uint(w, f->at);
	json_write_array_end(w);
	json_write_object_end(w);
}

void
tensor_file_add(struct tensor_file *f, const char *prefix, const struct adapter *a)
{
	for (size_t i = 0; i < a->count; i++) {
		char name[NAME_SIZE];

		if (full_name(name, prefix, a->tensors[i].key))
			add_tensor(f, name, &a->tensors[i]);
		else
			f->json.failed = true;
	}
}

void *
tensor_file_header(struct tensor_file *f, size_t *len)
{
	const char *json;
	unsigned char *header;
	size_t json_len, padded;

	json_write_object_end(&f->json);
	json = json_writer_text(&f->json, &json_len);
	if (json == NULL)
		return NULL;
	padded = (json_len + 7) / 8 * 8;
	header = malloc(8 + padded);
	if (header != NULL) {
		for (size_t i = 0; i < 8; i++)
			header[i] = (unsigned char)((uint64_t)padded >> (8 * i));
		memcpy(header + 8, json, json_len);
		memset(header + 8 + json_len, ' ', padded - json_len);
		*len = 8 + padded;
	}
	tensor_file_fini(f);
	return header;
}

void
tensor_file_fini(struct tensor_file *f)
{
	json_writer_fini(&f->json);
	json_writer_init(&f->json);
}

/* "4 x 8"; "a number" where it has no dimension. */
static void
write_shape(char out[SHAPE_SIZE], const struct safetensors_tensor *t)
{
	size_t at = 0;

	snprintf(out, SHAPE_SIZE, "a number");
	for (size_t i = 0; i < t->dims && at < SHAPE_SIZE; i++)
		at += (size_t)snprintf(out + at, SHAPE_SIZE - at, "%s%llu", i > 0 ? " x " : "",
		    (unsigned long long)t->shape[i]);
}

static int
check_tensor(const struct safetensors_tensor *t, const struct adapter_tensor *want, bool half,
    const char *what, struct refusal *r)
{
	bool known = t->dtype == SAFETENSORS_F32 ||
		     (half && (t->dtype == SAFETENSORS_F16 || t->dtype == SAFETENSORS_BF16));
	char shape[SHAPE_SIZE];
	uint64_t at;

	if (!known)
		return refuse(r, 422, "%s holds %s as %s, not as F32%s", what, t->name,
		    safetensors_dtype_name(t->dtype), half ? ", F16 or BF16" : "");
	if (t->dims != 2 || t->shape[0] != want->rows || t->shape[1] != want->cols) {
		write_shape(shape, t);
		return refuse(r, 422, "%s holds %s as %s, not as %zu x %zu", what, t->name, shape,
		    want->rows, want->cols);
	}
	at = safetensors_first_nonfinite(t);
	if (at != t->count)
		return refuse(r, 422, "%s holds a value in %s, at %llu, that is not finite", what,
		    t->name, (unsigned long long)at);
	return 0;
}

int
tensor_file_check(const struct safetensors *s, const struct adapter *a, const char *prefix,
    bool half, const char *what, struct refusal *r)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct safetensors_tensor *t = NULL;
		char name[NAME_SIZE];

		if (full_name(name, prefix, a->tensors[i].key))
			t = safetensors_find(s, name);
		if (t == NULL)
			return refuse(
			    r, 422, "%s has no tensor %s%s", what, prefix, a->tensors[i].key);
		if (check_tensor(t, &a->tensors[i], half, what, r) != 0)
			return -1;
	}
	return 0;
}

void
tensor_file_copy(
    const struct safetensors *s, const struct adapter *a, const char *prefix, float *out)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct safetensors_tensor *t;
		float *to = out + a->tensors[i].offset;
		char name[NAME_SIZE];

		full_name(name, prefix, a->tensors[i].key);
		t = safetensors_find(s, name);
		if (t == NULL)
			continue; /* cannot be: it was checked */
		if (t->dtype == SAFETENSORS_F32)
			memcpy(to, t->data, t->size);
		else
			dequant_f32(t->dtype == SAFETENSORS_F16 ? DEQUANT_F16 : DEQUANT_BF16, to,
			    t->data, (size_t)t->count);
	}
}

int
tensor_file_finite(
    const struct adapter *a, const char *prefix, const float *values, struct refusal *r)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct adapter_tensor *t = &a->tensors[i];
		const struct safetensors_tensor view = {.dtype = SAFETENSORS_F32,
		    .count = t->rows * t->cols,
		    .data = values + t->offset};

		if (safetensors_first_nonfinite(&view) != view.count)
			return refuse(r, 422,
			    "%s%s holds a value that is not finite: nothing was saved", prefix,
			    t->key);
	}
	return 0;
}
