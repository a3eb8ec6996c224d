#include "worker/model/load.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "worker/model/model.h"

enum {
	CHUNK_ELEMENTS = 128 * 1024, /* that a thread reads at once */
	PACKED_BYTES = 8 << 20,	     /* of stored rows that are unpacked at once, at most */
};

/* Some rows of one tensor: what a thread reads at once. */
struct chunk {
	const struct load_tensor *tensor;
	size_t first, count;
	size_t from, bytes; /* on the device, as the tensor's offset */
	/* Bytes as the file stores them, in this type, where the device unpacks them; else 0. */
	size_t packed;
	enum dequant_type type;
};

struct load {
	struct op_context *ops;
	char *memory;
	const struct model_files *files;
	struct chunk *chunks;
	size_t count;
	/* On the device: stored rows on their way. */
	void *packed;
	size_t packed_size;
};

static size_t
rows_at_once(const struct load_tensor *t)
{
	return t->cols >= CHUNK_ELEMENTS ? 1 : CHUNK_ELEMENTS / t->cols;
}

/* Bytes of a stored row, if it is the device's to unpack it: where it is another type and no larger
   than what it becomes, so that less is copied. Else 0. */
static size_t
packed_row(const struct load *l, const struct load_tensor *t, enum dequant_type *type)
{
	const size_t element = t->dtype == OP_F32 ? 4 : 2;
	const struct dequant_format *f;

	if (strcmp(device_backend(), "cuda") != 0 || !model_files_stored(l->files, t->name, type) ||
	    *type == (t->dtype == OP_F32 ? DEQUANT_F32 : DEQUANT_BF16))
		return 0;
	f = dequant_format(*type);
	return f->bytes <= element * f->block ? t->cols / f->block * f->bytes : 0;
}

static void
cut_tensor(struct load *l, const struct load_tensor *t)
{
	const size_t row_bytes = t->cols * (t->dtype == OP_F32 ? 4 : 2);
	enum dequant_type type = DEQUANT_F32;
	const size_t packed = packed_row(l, t, &type);

	for (size_t row = 0, many; row < t->rows; row += many) {
		many = rows_at_once(t) < t->rows - row ? rows_at_once(t) : t->rows - row;
		l->chunks[l->count++] = (struct chunk){.tensor = t,
		    .first = row,
		    .count = many,
		    .from = t->offset + row * row_bytes,
		    .bytes = many * row_bytes,
		    .packed = many * packed,
		    .type = type};
	}
	if (packed * t->rows > l->packed_size)
		l->packed_size = packed * t->rows < PACKED_BYTES ? packed * t->rows : PACKED_BYTES;
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
read_chunk(const struct load *l, const struct chunk *c, bool packed, void *out, struct refusal *r)
{
	const struct load_tensor *t = c->tensor;

	if (packed)
		return model_files_copy_rows(
		    l->files, t->name, out, c->first, c->count, t->cols, r);
	return model_files_read_rows(
	    l->files, t->name, out, t->dtype, c->first, c->count, t->cols, r);
}

/* Where chunk c begins in memory that begins with chunk `first`. */
static size_t
place(const struct chunk *first, const struct chunk *c, bool packed)
{
	if (!packed)
		return c->from - first->from;
	/* Of one tensor, whose chunks but the last have as many rows as the first. */
	return (size_t)(c - first) * first->packed;
}

/* `count` chunks from c on into host memory, with all threads. 0, or -1 with *r of the first that
   failed. */
static int
read_chunks(const struct load *l, const struct chunk *c, size_t count, bool packed, char *host,
    struct refusal *r)
{
	int failed = 0;

#pragma omp parallel for schedule(dynamic) num_threads(op_threads(l->ops))
	for (size_t i = 0; i < count; i++) {
		struct refusal own;
		int stop;

#pragma omp atomic read
		stop = failed;
		if (stop || read_chunk(l, &c[i], packed, host + place(c, &c[i], packed), &own) == 0)
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
	rc = read_chunk(l, c, false, buffer, r);
	if (rc == 0)
		status = op_upload(l->ops, l->memory + c->from, buffer, c->bytes);
	free(buffer);
	return status == OP_OK ? rc : model_refuse_op(r, l->ops, status);
}

/* Bytes from c on up to the end of the last chunk that may go with it: as they are on the device,
   up to one that is unpacked there; or stored, of one tensor. */
static size_t
stretch(const struct load *l, const struct chunk *c)
{
	const struct chunk *last = c;

	while (last + 1 < l->chunks + l->count &&
	       (c->packed == 0 ? last[1].packed == 0 : last[1].tensor == c->tensor))
		last++;
	if (c->packed == 0)
		return last->from + last->bytes - c->from;
	return place(c, last, true) + last->packed;
}

/* What was staged is copied, and unpacked where it has to be. */
static enum op_status
send(const struct load *l, const struct chunk *c, size_t count, const void *host, size_t bytes)
{
	size_t rows = 0;

	if (c->packed == 0)
		return op_staged(l->ops, l->memory + c->from, host, bytes);
	for (size_t i = 0; i < count; i++)
		rows += c[i].count;
	OP_TRY(op_staged(l->ops, l->packed, host, bytes));
	return op_unpack(l->ops, l->memory + c->from, c->tensor->dtype, l->packed, (int)c->type,
	    rows * c->tensor->cols);
}

/* As many chunks from `first` on as go in one piece: *taken. */
static int
load_some(const struct load *l, size_t first, size_t *taken, struct refusal *r)
{
	const struct chunk *c = l->chunks + first;
	const bool packed = c->packed != 0;
	size_t room = stretch(l, c), count = 0, bytes = 0;
	const size_t all = room;
	enum op_status status;
	void *host;

	if (packed && room > l->packed_size)
		room = l->packed_size;
	status = op_stage(l->ops, &host, &room, packed ? l->packed : l->memory + c->from);
	if (status != OP_OK)
		return model_refuse_op(r, l->ops, status);
	while (bytes < all) {
		const struct chunk *next = &c[count];
		const size_t end = place(c, next, packed) + (packed ? next->packed : next->bytes);

		if (end > room)
			break;
		bytes = end;
		count++;
	}
	*taken = count > 0 ? count : 1;
	if (count == 0)
		return load_alone(l, c, r);
	if (read_chunks(l, c, count, packed, host, r) != 0)
		return -1;
	status = send(l, c, count, host, bytes);
	return status == OP_OK ? 0 : model_refuse_op(r, l->ops, status);
}

int
load_tensors(struct op_context *ops, void *memory, const struct model_files *files,
    const struct load_tensor *tensors, size_t count, struct refusal *r)
{
	struct load l = {.ops = ops, .memory = memory, .files = files};
	enum op_status status = OP_OK;
	int rc = 0;

	if (cut_chunks(&l, tensors, count) != 0)
		return refuse(r, 507, "no memory to read the model with");
	if (l.packed_size != 0)
		status = op_alloc(ops, &l.packed, l.packed_size);
	if (status != OP_OK)
		rc = model_refuse_op(r, ops, status);
	for (size_t i = 0, taken = 0; rc == 0 && i < l.count; i += taken)
		rc = load_some(&l, i, &taken, r);
	if (l.packed != NULL)
		op_free(ops, l.packed);
	free(l.chunks);
	model_files_release(files);
	return rc;
}
