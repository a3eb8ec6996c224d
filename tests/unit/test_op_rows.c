#include "tests/unit/op_test.h"

TEST(embed)
{
	static const size_t widths[] = {1, 7, 64, 577};

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 16; i++) {
		size_t rows = 11, width = widths[i % 4], tokens = 37, wrong = 0;
		enum op_dtype type = i / 4 % 2 == 0 ? OP_F32 : OP_BF16;
		float *table = random_floats(rows * width, 1.0f, i);
		struct op_matrix w = {.rows = rows, .cols = width, .dtype = type};
		float *out = malloc(tokens * width * sizeof(float));
		float *device;
		int32_t ids[37];

		r.offset = i < 8 ? 0 : 4; /* aligned, and not */
		device = rig_f32(&r, NULL, tokens * width);
		for (size_t t = 0; t < tokens; t++)
			ids[t] = (int32_t)(t * 5 % rows);
		w.data = rig_typed(&r, table, rows * width, type);
		OK(op_embed(r.ctx, device, &w, rig_i32(&r, ids, tokens), tokens));
		rig_get(&r, out, device, tokens * width);
		for (size_t t = 0; t < tokens; t++)
			for (size_t d = 0; d < width; d++)
				wrong += out[t * width + d] != table[(size_t)ids[t] * width + d];
		CHECK_MSG(wrong == 0, "width %zu: %zu wrong", width, wrong);
		free(table);
		free(out);
		rig_clear(&r);
	}
}

TEST(embed_refuses_ids)
{
	struct rig r = rig_open(OP_F32, 1);
	float *table = random_floats(6, 1.0f, 1);
	struct op_matrix w = {.data = rig_f32(&r, table, 6), .rows = 3, .cols = 2};
	float *out = rig_f32(&r, NULL, 4);

	for (int i = 0; i < 2; i++)
		CHECK(rig_refused(&r, op_embed(r.ctx, out, &w,
					  rig_i32(&r, (int32_t[]){0, i == 0 ? 3 : -1}, 2), 2)) ==
		      OP_UNSUPPORTED);
	CHECK(rig_refused(&r, op_embed(r.ctx, out, &w, rig_i32(&r, (int32_t[]){0, 2}, 2), 2)) ==
	      OP_OK);
	free(table);
	rig_close(&r);
}

TEST(gather_and_scatter)
{
	static const size_t widths[] = {1, 5, 96, 1031};

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 8; i++) {
		size_t total = 53, count = 29, width = widths[i % 4], wrong = 0;
		float *in = random_floats(total * width, 1.0f, i);
		float *add = random_floats(count * width, 1.0f, i + 10);
		float *out = malloc(total * width * sizeof(float));
		float *device, *picked;
		int32_t rows[29], *device_rows;

		r.offset = i < 4 ? 0 : 4;
		device = rig_f32(&r, in, total * width);
		picked = rig_f32(&r, NULL, count * width);
		for (size_t m = 0; m < count; m++)
			rows[m] = (int32_t)(m * 7 % total); /* distinct: 53 is prime */
		device_rows = rig_i32(&r, rows, count);
		OK(op_gather_rows(r.ctx, picked, device, device_rows, count, width));
		rig_get(&r, out, picked, count * width);
		for (size_t m = 0; m < count * width; m++)
			wrong += out[m] != in[(size_t)rows[m / width] * width + m % width];
		OK(op_scatter_rows(
		    r.ctx, device, rig_f32(&r, add, count * width), device_rows, count, width));
		rig_get(&r, out, device, total * width);
		for (size_t m = 0; m < count * width; m++)
			in[(size_t)rows[m / width] * width + m % width] += add[m];
		for (size_t m = 0; m < total * width; m++)
			wrong += out[m] != in[m];
		CHECK_MSG(wrong == 0, "width %zu: %zu wrong", width, wrong);
		free(in);
		free(add);
		free(out);
		rig_clear(&r);
	}
}

TEST_MAIN(TEST_CASE(embed), TEST_CASE(embed_refuses_ids), TEST_CASE(gather_and_scatter))
