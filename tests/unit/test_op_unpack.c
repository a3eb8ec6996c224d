/* Stored types unpacked by the backend: against gguf-py's values and the host's, bit for bit. */
#include "kernels/dequant.h"

#include "tests/unit/dequant_values.h"
#include "tests/unit/op_test.h"
#include "tests/unit/random_blocks.h"

#define TYPE(name, number, ...) DEQUANT_##name,
static const enum dequant_type types[] = {DEQUANT_LIST(TYPE)};
#undef TYPE
enum { TYPES = sizeof(types) / sizeof(*types) };

/* raw at an address that is no multiple of anything, as rows of a file have it. */
static void
unpack(struct rig *r, void *out, enum op_dtype as, enum dequant_type type, const void *raw,
    size_t bytes, size_t n)
{
	unsigned char *device = rig_alloc(r, bytes + 1);
	const size_t size = n * (as == OP_F32 ? 4 : 2);
	void *result = rig_alloc(r, size);

	OK(op_upload(r->ctx, device + 1, raw, bytes));
	OK(op_unpack(r->ctx, result, as, device + 1, (int)type, n));
	OK(op_download(r->ctx, out, result, size));
	rig_clear(r);
}

static void
check_known(struct rig *r, enum dequant_type type, const unsigned char *raw, size_t raw_size,
    const uint32_t *values, size_t n)
{
	float out[512];

	unpack(r, out, OP_F32, type, raw, raw_size, n);
	CHECK_MSG(memcmp(out, values, n * sizeof(float)) == 0, "type %d", type);
}

#define CHECK_KNOWN(name)                                                                          \
	check_known(&r, DEQUANT_##name, raw_##name, sizeof(raw_##name), values_##name,             \
	    sizeof(values_##name) / sizeof(values_##name[0]))

TEST(as_gguf_py_has_them)
{
	struct rig r = rig_open(OP_F32, 2);

	CHECK_KNOWN(F16);
	CHECK_KNOWN(BF16);
	CHECK_KNOWN(Q4_0);
	CHECK_KNOWN(Q4_1);
	CHECK_KNOWN(Q5_0);
	CHECK_KNOWN(Q5_1);
	CHECK_KNOWN(Q8_0);
	CHECK_KNOWN(Q4_K);
	CHECK_KNOWN(Q5_K);
	CHECK_KNOWN(Q6_K);
	rig_close(&r);
}

/* One block, some, and more than threads of a device or pieces of the CPU. */
TEST(as_the_host_has_them)
{
	static const size_t blocks[] = {0, 1, 8, 67, 1031};
	struct rig r = rig_open(OP_BF16, 2);

	for (size_t t = 0; t < TYPES; t++)
		for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++) {
			const struct dequant_format *f = dequant_format(types[t]);
			const size_t n = blocks[i] / (f->block == 256 ? 8 : 1) * f->block;
			unsigned char *raw = malloc(n / f->block * f->bytes + 1);
			float *want = malloc(n * sizeof(float) + 1), *got = malloc(4 * n + 1);
			uint16_t *narrow = malloc(2 * n + 1), *half = malloc(2 * n + 1);
			const size_t bytes = random_blocks(raw, types[t], n, 7 * t + i);

			dequant_f32(types[t], want, raw, n);
			dequant_round_bf16(narrow, want, n);
			unpack(&r, got, OP_F32, types[t], raw, bytes, n);
			CHECK_MSG(memcmp(got, want, 4 * n) == 0, "%s, %zu", f->name, n);
			unpack(&r, half, OP_BF16, types[t], raw, bytes, n);
			CHECK_MSG(memcmp(half, narrow, 2 * n) == 0, "%s, %zu, bf16", f->name, n);
			free(raw);
			free(want);
			free(got);
			free(narrow);
			free(half);
		}
	rig_close(&r);
}

/* Every half, infinities and NaN too. */
TEST(every_half)
{
	enum { N = 65536 };
	struct rig r = rig_open(OP_F32, 2);
	uint16_t *raw = malloc(N * sizeof(*raw));
	float *want = malloc(N * sizeof(*want)), *got = malloc(N * sizeof(*got));

	for (size_t i = 0; i < N; i++)
		raw[i] = (uint16_t)i;
	dequant_f32(DEQUANT_F16, want, raw, N);
	unpack(&r, got, OP_F32, DEQUANT_F16, raw, N * sizeof(*raw), N);
	for (size_t i = 0; i < N; i++)
		CHECK_MSG(isnan(want[i]) ? isnan(got[i]) : memcmp(&got[i], &want[i], 4) == 0,
		    "%04zx: %g, want %g", i, (double)got[i], (double)want[i]);
	free(raw);
	free(want);
	free(got);
	rig_close(&r);
}

TEST(refuses)
{
	struct rig r = rig_open(OP_F32, 1);
	float *memory = rig_f32(&r, NULL, 300);

	CHECK(op_unpack(r.ctx, memory, OP_F32, memory, 9, 32) == OP_UNSUPPORTED);
	CHECK(op_unpack(r.ctx, memory, OP_F32, memory, -1, 32) == OP_UNSUPPORTED);
	CHECK(op_unpack(r.ctx, memory, OP_F32, memory, DEQUANT_Q4_0, 33) == OP_UNSUPPORTED);
	CHECK(op_unpack(r.ctx, memory, OP_F32, memory, DEQUANT_Q6_K, 128) == OP_UNSUPPORTED);
	rig_close(&r);
}

TEST_MAIN(TEST_CASE(as_gguf_py_has_them), TEST_CASE(as_the_host_has_them), TEST_CASE(every_half),
    TEST_CASE(refuses))
