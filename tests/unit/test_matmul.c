#include "kernels/matmul.h"
#include "tests/unit/op_test.h"
#include "tests/unit/product.h"

/* The library's primitives, which native bfloat16 goes through: here in float32, which every
   processor has, and in bfloat16 where this one multiplies it. */
TEST(matmul_primitives)
{
	for (size_t i = 0; i < 8 * SIZES; i++) {
		struct sizes s = sizes[i % SIZES];
		bool transpose = i / SIZES & 1, accumulate = i / SIZES & 2;
		enum op_dtype type = i / SIZES & 4 ? OP_BF16 : OP_F32;
		size_t m = s.tokens, n = s.outputs, k = s.inputs;
		struct rig r = rig_open(type, 2);
		float *a = random_floats(m * k, 1.0f, 1), *b = random_floats(n * k, 1.0f, 2);
		float *before = random_floats(m * n, 1.0f, 3), *got = malloc(m * n * sizeof(float));
		float *c = rig_f32(&r, accumulate ? before : NULL, m * n);
		void *device_a = rig_act(&r, a, m * k), *device_b = rig_act(&r, b, n * k);
		double *want = malloc(m * n * sizeof(double));
		struct matmul_shape shape = {.m = m,
		    .n = n,
		    .k = k,
		    .lda = k,
		    .ldb = transpose ? k : n,
		    .ldc = n,
		    .transpose_b = transpose,
		    .accumulate = accumulate,
		    .dtype = type};
		struct matmul *mm;

		OK(matmul_new(&mm));
		reference(want, a, b, m, n, k, transpose);
		for (size_t j = 0; j < m * n && accumulate; j++)
			want[j] += (double)before[j];
		if (type == OP_F32 || matmul_native_bf16()) {
			OK(matmul_run(mm, c, device_a, device_b, &shape));
			rig_get(&r, got, c, m * n);
			CHECK_NEAR(got, want, m * n, 2e-6);
		}
		matmul_free(mm);
		free(a);
		free(b);
		free(before);
		free(got);
		free(want);
		rig_close(&r);
	}
}

/* More shapes than are kept: each is right, also when it comes back. */
TEST(matmul_forgets_shapes)
{
	struct matmul *mm;
	float a[200], b[200], c, want;

	OK(matmul_new(&mm));
	for (size_t i = 0; i < 200; i++)
		a[i] = 1.0f, b[i] = (float)i;
	for (int round = 0; round < 2; round++)
		for (size_t k = 1; k < 200; k++) {
			struct matmul_shape shape = {
			    .m = 1, .n = 1, .k = k, .lda = k, .ldb = 1, .ldc = 1, .dtype = OP_F32};

			OK(matmul_run(mm, &c, a, b, &shape));
			want = (float)(k * (k - 1) / 2);
			CHECK_MSG(c == want, "%g, want %g", (double)c, (double)want);
		}
	matmul_free(mm);
}

TEST_MAIN(TEST_CASE(matmul_primitives), TEST_CASE(matmul_forgets_shapes))
