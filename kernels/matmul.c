#include "kernels/matmul.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

/* A step has some fifteen shapes for each number of tokens; one that comes back finds its own. */
enum { SLOTS = 128 };

struct slot {
	struct matmul_shape shape;
	uint64_t used; /* 0: empty */
	dnnl_primitive_t primitive;
	dnnl_memory_t a, b, c;
};

struct matmul {
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	uint64_t clock;
	struct slot slots[SLOTS];
};

bool
matmul_native_bf16(void)
{
	/* Each level is a set of bits that holds those of the levels below it. */
	dnnl_cpu_isa_t has = dnnl_get_effective_cpu_isa();

	return (has & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

static void
slot_clear(struct slot *slot)
{
	if (slot->primitive != NULL)
		dnnl_primitive_destroy(slot->primitive);
	if (slot->a != NULL)
		dnnl_memory_destroy(slot->a);
	if (slot->b != NULL)
		dnnl_memory_destroy(slot->b);
	if (slot->c != NULL)
		dnnl_memory_destroy(slot->c);
	memset(slot, 0, sizeof(*slot));
}

enum op_status
matmul_new(struct matmul **out)
{
	struct matmul *mm = calloc(1, sizeof(*mm));

	*out = NULL;
	if (mm == NULL)
		return OP_NO_MEMORY;
	if (dnnl_engine_create(&mm->engine, dnnl_cpu, 0) != dnnl_success ||
	    dnnl_stream_create(&mm->stream, mm->engine, dnnl_stream_default_flags) !=
		dnnl_success) {
		matmul_free(mm);
		return OP_DEVICE_FAULT;
	}
	*out = mm;
	return OP_OK;
}

void
matmul_free(struct matmul *mm)
{
	if (mm == NULL)
		return;
	for (size_t i = 0; i < SLOTS; i++)
		slot_clear(&mm->slots[i]);
	if (mm->stream != NULL)
		dnnl_stream_destroy(mm->stream);
	if (mm->engine != NULL)
		dnnl_engine_destroy(mm->engine);
	free(mm);
}

static bool
shape_equal(const struct matmul_shape *x, const struct matmul_shape *y)
{
	return x->m == y->m && x->n == y->n && x->k == y->k && x->lda == y->lda &&
	       x->ldb == y->ldb && x->ldc == y->ldc && x->transpose_b == y->transpose_b &&
	       x->accumulate == y->accumulate && x->dtype == y->dtype;
}

/* The slot of this shape, or else the one that was not used for the longest time. */
static struct slot *
slot_find(struct matmul *mm, const struct matmul_shape *shape)
{
	struct slot *oldest = &mm->slots[0];

	for (struct slot *slot = mm->slots; slot < mm->slots + SLOTS; slot++) {
		if (slot->used != 0 && shape_equal(&slot->shape, shape))
			return slot;
		if (slot->used < oldest->used)
			oldest = slot;
	}
	return oldest;
}

/* A matrix (rows, cols) whose element (i, j) lies at i * row + j * col. */
static dnnl_status_t
describe(dnnl_memory_desc_t *desc, dnnl_data_type_t type, size_t rows, size_t cols, size_t row,
    size_t col)
{
	const dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)cols};
	const dnnl_dims_t strides = {(dnnl_dim_t)row, (dnnl_dim_t)col};

	return dnnl_memory_desc_init_by_strides(desc, 2, dims, type, strides);
}

static dnnl_status_t
primitive_make(dnnl_primitive_t *out, const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b,
    const dnnl_memory_desc_t *c, bool accumulate, dnnl_engine_t engine)
{
	dnnl_matmul_desc_t desc;
	dnnl_primitive_attr_t attr = NULL;
	dnnl_post_ops_t sum = NULL;
	dnnl_primitive_desc_t plan = NULL;
	dnnl_status_t status = dnnl_matmul_desc_init(&desc, a, b, NULL, c);

	if (status == dnnl_success && accumulate) {
		status = dnnl_primitive_attr_create(&attr);
		if (status == dnnl_success)
			status = dnnl_post_ops_create(&sum);
		if (status == dnnl_success)
			status = dnnl_post_ops_append_sum(sum, 1.0f);
		if (status == dnnl_success)
			status = dnnl_primitive_attr_set_post_ops(attr, sum);
	}
	if (status == dnnl_success)
		status = dnnl_primitive_desc_create(&plan, &desc, attr, engine, NULL);
	if (status == dnnl_success)
		status = dnnl_primitive_create(out, plan);
	if (plan != NULL)
		dnnl_primitive_desc_destroy(plan);
	if (sum != NULL)
		dnnl_post_ops_destroy(sum);
	if (attr != NULL)
		dnnl_primitive_attr_destroy(attr);
	return status;
}

static dnnl_status_t
slot_fill(struct matmul *mm, struct slot *slot, const struct matmul_shape *s)
{
	dnnl_data_type_t type = s->dtype == OP_BF16 ? dnnl_bf16 : dnnl_f32;
	dnnl_memory_desc_t a, b, c;
	dnnl_status_t status = describe(&a, type, s->m, s->k, s->lda, 1);

	slot_clear(slot);
	if (status == dnnl_success)
		status = s->transpose_b ? describe(&b, type, s->k, s->n, 1, s->ldb)
					: describe(&b, type, s->k, s->n, s->ldb, 1);
	if (status == dnnl_success)
		status = describe(&c, dnnl_f32, s->m, s->n, s->ldc, 1);
	if (status == dnnl_success)
		status = primitive_make(&slot->primitive, &a, &b, &c, s->accumulate, mm->engine);
	if (status == dnnl_success)
		status = dnnl_memory_create(&slot->a, &a, mm->engine, DNNL_MEMORY_NONE);
	if (status == dnnl_success)
		status = dnnl_memory_create(&slot->b, &b, mm->engine, DNNL_MEMORY_NONE);
	if (status == dnnl_success)
		status = dnnl_memory_create(&slot->c, &c, mm->engine, DNNL_MEMORY_NONE);
	if (status != dnnl_success) {
		slot_clear(slot);
		return status;
	}
	slot->shape = *s;
	return dnnl_success;
}

enum op_status
matmul_run(
    struct matmul *mm, float *c, const void *a, const void *b, const struct matmul_shape *shape)
{
	struct slot *slot = slot_find(mm, shape);
	dnnl_exec_arg_t args[3];

	if (slot->used == 0 || !shape_equal(&slot->shape, shape)) {
		dnnl_status_t status = slot_fill(mm, slot, shape);

		if (status != dnnl_success)
			return status == dnnl_out_of_memory ? OP_NO_MEMORY : OP_DEVICE_FAULT;
	}
	slot->used = ++mm->clock;
	/* The library's handles are not const; it only reads a and b. */
	dnnl_memory_set_data_handle(slot->a, (void *)(uintptr_t)a);
	dnnl_memory_set_data_handle(slot->b, (void *)(uintptr_t)b);
	dnnl_memory_set_data_handle(slot->c, c);
	args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, slot->a};
	args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, slot->b};
	args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, slot->c};
	if (dnnl_primitive_execute(slot->primitive, mm->stream, 3, args) != dnnl_success ||
	    dnnl_stream_wait(mm->stream) != dnnl_success)
		return OP_DEVICE_FAULT;
	return OP_OK;
}
