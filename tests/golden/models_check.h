/*
 * What the golden check of models is made of: a tally of comparisons, distances, and the files of a
 * case (case.json, expected.json, tensors) in memory. Whatever is malformed ends the program:
 * these are the checker's own inputs.
 */
#ifndef TESTS_GOLDEN_MODELS_CHECK_H
#define TESTS_GOLDEN_MODELS_CHECK_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ipc/json.h"
#include "ipc/safetensors.h"

struct tally {
	int passed, failed;
	bool verbose;	   /* also the comparisons that hold */
	const char *model; /* the folder's name */
	const char *compute;
};

static inline void
die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n0 passed, 1 failed\n");
	exit(1);
}

/* One comparison. Prints it where it fails. */
static inline void
check(struct tally *t, bool holds, const char *format, ...)
{
	va_list args;

	*(holds ? &t->passed : &t->failed) += 1;
	if (holds && !t->verbose)
		return;
	printf("%s %s %s: ", holds ? "ok  " : "FAIL", t->model, t->compute);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

/* NaN fails, as every comparison with it is false. */
static inline void
check_distance(struct tally *t, const char *what, double distance, double limit)
{
	check(t, distance <= limit, "%s: distance %.2g, limit %.2g", what, distance, limit);
}

static inline void
check_relative(struct tally *t, const char *what, double got, double want, double limit)
{
	check(t, fabs(got - want) <= limit * fabs(want), "%s: %.9g, not %.9g (%.2g, limit %.2g)",
	    what, got, want, fabs(got - want) / fabs(want), limit);
}

static inline void *
get_memory(size_t bytes)
{
	void *p = calloc(1, bytes == 0 ? 1 : bytes);

	if (p == NULL)
		die("no memory");
	return p;
}

struct bytes {
	char *data;
	size_t len;
};

static inline bool
file_exists(const char *folder, const char *name)
{
	char path[1024];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return stat(path, &st) == 0;
}

static inline struct bytes
read_file(const char *folder, const char *name)
{
	struct bytes b = {0};
	char path[1400];
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "rb");
	if (f == NULL || fstat(fileno(f), &st) != 0)
		die("%s cannot be read", path);
	b.len = (size_t)st.st_size;
	b.data = get_memory(b.len);
	if (fread(b.data, 1, b.len, f) != b.len)
		die("%s cannot be read", path);
	fclose(f);
	return b;
}

static inline struct json_doc *
read_json(const char *folder, const char *name)
{
	struct bytes b = read_file(folder, name);
	struct json_doc *doc;

	if (json_parse(&doc, b.data, b.len, NULL) != 0)
		die("%s/%s is no JSON", folder, name);
	free(b.data);
	return doc;
}

struct tensors {
	struct bytes bytes;
	struct safetensors *index;
};

static inline struct tensors
read_tensors(const char *folder, const char *name)
{
	struct tensors t = {.bytes = read_file(folder, name)};
	char why[256];

	if (safetensors_open(&t.index, t.bytes.data, t.bytes.len, why, sizeof(why)) != 0)
		die("%s/%s: %s", folder, name, why);
	return t;
}

static inline void
tensors_free(struct tensors *t)
{
	safetensors_free(t->index);
	free(t->bytes.data);
}

/* A float32 tensor of n elements; a view, or NULL if there is none of that name. */
static inline const float *
find_floats(const struct tensors *t, const char *name, size_t n)
{
	const struct safetensors_tensor *found = safetensors_find(t->index, name);

	if (found == NULL)
		return NULL;
	if (found->dtype != SAFETENSORS_F32 || found->count != n)
		die("%s has another type or shape", name);
	return found->data;
}

/* |a - b| / |b| over all that is added. */
struct distance {
	double difference, norm;
};

static inline double
distance_add(struct distance *d, const float *a, const float *b, size_t n)
{
	struct distance own = {0};

	for (size_t i = 0; i < n; i++) {
		float x, y;

		memcpy(&x, a + i, sizeof(x)); /* a file's tensors need not be aligned */
		memcpy(&y, b + i, sizeof(y));
		own.difference += ((double)x - y) * ((double)x - y);
		own.norm += (double)y * y;
	}
	d->difference += own.difference;
	d->norm += own.norm;
	/* what should be exactly 0 has no relative distance */
	return own.difference == 0 ? 0 : sqrt(own.difference / own.norm);
}

static inline double
distance_of(const struct distance *d)
{
	return d->difference == 0 ? 0 : sqrt(d->difference / d->norm);
}

static inline double
number(struct json object, const char *key)
{
	double x;

	if (!json_double(json_get(object, key), &x))
		die("no number %s", key);
	return x;
}

static inline struct json
element(struct json array, size_t index)
{
	struct json v = json_first(array);

	while (index-- > 0)
		v = json_next(v);
	return v;
}

static inline double
number_at(struct json array, size_t index)
{
	double x;

	if (!json_double(element(array, index), &x))
		die("no number at %zu", index);
	return x;
}

/* An array of integers; the caller frees it. */
static inline int32_t *
read_ints(struct json array, size_t *count)
{
	int32_t *out = get_memory(json_count(array) * sizeof(*out));
	size_t n = 0;

	json_foreach (v, array) {
		int64_t x;

		if (!json_int64(v, &x) || x != (int32_t)x)
			die("no integer");
		out[n++] = (int32_t)x;
	}
	*count = n;
	return out;
}

#endif
