#include "worker/model/load.h"

#include <stdlib.h>

#include "worker/model/model.h"

/* Elements that a thread reads at once. */
enum { CHUNK_ELEMENTS = 128 * 1024 };

/* Some rows of one tensor: what a thread reads at once. */
struct chunk {
	const struct load_tensor *tensor;
	size_t first, count;
	size_t from, bytes; /* on the device, as the tensor's offset */
};

struct load {
	struct op_context *ops;
	char *memory;
	const struct model_files *files;
	struct chunk *chunks;
	size_t count;
};

static size_t
rows_at_once(const struct load_tensor *t)
{
	return t->cols >= CHUNK_ELEMENTS ? 1 : CHUNK_ELEMENTS / t->cols;
}

static void
cut_tensor(struct load *l, const struct load_tensor *t)
{
	const size_t row_bytes = t->cols * (t->dtype == OP_F32 ? 4 : 2);

	for (size_t row = 0, many; row < t->rows; row += many) {
		many = rows_at_once(t) < t->rows - row ? rows_at_once(t) : t->rows - row;
		l->chunks[l->count++] = (struct chunk){.tensor = t,
		    .first = row,
		    .count = many,
		    .from = t->offset + row * row_bytes,
		    .bytes = many * row_bytes};
	}
}

/* Cuts all tensors into chunks, in the order of their memory. -1 if there is none for that. */
static int
cut_chunks(struct load *l, const struct load_tensor *tensors, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += tensors[i].rows / rows_at_once(&tensors[i]) + 1;
	l->chunks = calloc(n, sizeof(*l->chunks));
	for (size_t i = 0; l->chunks != NULL && i < count; i++)
		cut_tensor(l, &tensors[i]);
	return l->chunks == NULL ? -1 : 0;
}

static int
read_chunk(const struct load *l, const struct chunk *c, void *out, struct refusal *r)
{
	const struct load_tensor *t = c->tensor;

	return model_files_read_rows(
	    l->files, t->name, out, t->dtype, c->first, c->count, t->cols, r);
}

/* Chunks first .. first+count-1 into host memory that begins with the first of them, with all
   threads. 0, or -1 with *r of the first that failed. */
static int
read_chunks(const struct load *l, size_t first, size_t count, char *host, struct refusal *r)
{
	const struct chunk *c = l->chunks + first;
	int failed = 0;

#pragma omp parallel for schedule(dynamic) num_threads(op_threads(l->ops))
	for (size_t i = 0; i < count; i++) {
		struct refusal own;
		int stop;

#pragma omp atomic read
		stop = failed;
		if (stop || read_chunk(l, &c[i], host + (c[i].from - c[0].from), &own) == 0)
			continue;
#pragma omp critical(load_failed)
		*r = own;
#pragma omp atomic write
		failed = 1;
	}
	return failed ? -1 : 0;
}

/* A chunk that no buffer of the backend holds: a row of more than some millions of elements. */
static int
load_alone(const struct load *l, const struct chunk *c, struct refusal *r)
{
	void *buffer = malloc(c->bytes);
	enum op_status status = OP_OK;
	int rc;

	if (buffer == NULL)
		return refuse(r, 507, "no memory to read the model with");
	rc = read_chunk(l, c, buffer, r);
	if (rc == 0)
		status = op_upload(l->ops, l->memory + c->from, buffer, c->bytes);
	free(buffer);
	return status == OP_OK ? rc : model_refuse_op(r, l->ops, status);
}

/* As many chunks from `first` on as go in one piece: *taken. */
static int
load_some(const struct load *l, size_t first, size_t *taken, struct refusal *r)
{
	const struct chunk *c = l->chunks + first, *last = l->chunks + l->count - 1;
	char *const device = l->memory + c->from;
	size_t room = last->from + last->bytes - c->from, count = 0, bytes = 0;
	void *host;
	enum op_status status = op_stage(l->ops, &host, &room, device);

	if (status != OP_OK)
		return model_refuse_op(r, l->ops, status);
	for (; first + count < l->count; count++) {
		const size_t end = c[count].from + c[count].bytes - c->from;

		if (end > room)
			break;
		bytes = end;
	}
	*taken = count > 0 ? count : 1;
	if (count == 0)
		return load_alone(l, c, r);
	if (read_chunks(l, first, count, host, r) != 0)
		return -1;
	status = op_staged(l->ops, device, host, bytes);
	return status == OP_OK ? 0 : model_refuse_op(r, l->ops, status);
}

int
load_tensors(struct op_context *ops, void *memory, const struct model_files *files,
    const struct load_tensor *tensors, size_t count, struct refusal *r)
{
	struct load l = {.ops = ops, .memory = memory, .files = files};
	int rc = 0;

	if (cut_chunks(&l, tensors, count) != 0)
		return refuse(r, 507, "no memory to read the model with");
	for (size_t i = 0, taken = 0; rc == 0 && i < l.count; i += taken)
		rc = load_some(&l, i, &taken, r);
	free(l.chunks);
	model_files_release(files);
	return rc;
}
