#include "tests/unit/op_test.h"

TEST(open_refuses)
{
	struct op_context *ctx;
	struct op_options options = {.compute = OP_F32, .threads = -1};

	CHECK(op_open(&ctx, &options) == OP_UNSUPPORTED);
	CHECK(ctx == NULL);
	CHECK(strlen(op_last_error(NULL)) > 0);
	options.threads = 0;
	options.compute = (enum op_dtype)7;
	CHECK(op_open(&ctx, &options) == OP_UNSUPPORTED);
	op_close(NULL);
}

TEST(context)
{
	struct op_context *ctx;
	struct op_options options = {.compute = OP_BF16, .threads = 2};

	OK(op_open(&ctx, &options));
	CHECK(op_compute(ctx) == OP_BF16);
	CHECK(op_threads(ctx) == 2);
	OK(op_reserve(ctx, 1000, 7));
	OK(op_reserve(ctx, 10, 7));
	CHECK(op_reserve(ctx, SIZE_MAX / 4, 7) == OP_NO_MEMORY);
	CHECK(strlen(op_last_error(ctx)) > 0);
	OK(op_reserve(ctx, 100, 7)); /* a failure leaves it usable */
	op_close(ctx);
	options.threads = 0;
	OK(op_open(&ctx, &options));
	CHECK(op_threads(ctx) >= 1);
	op_close(ctx);
}

/* Small, mapped and huge: aligned, zeroed, also when the memory had been used before. */
TEST(alloc)
{
	static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 262080, 300000, 5 << 20};
	struct rig r = rig_open(OP_F32, 1);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int again = 0; again < 2; again++) {
			size_t n = sizes[i];
			char *host = malloc(n + 1);
			void *memory;

			OK(op_alloc(r.ctx, &memory, n));
			CHECK((uintptr_t)memory % 64 == 0);
			memset(host, 1, n + 1);
			OK(op_download(r.ctx, host, memory, n));
			for (size_t j = 0; j < n; j += 13)
				CHECK_MSG(host[j] == 0, "size %zu byte %zu", n, j);
			memset(host, 5, n + 1);
			OK(op_upload(r.ctx, memory, host, n));
			OK(op_sync(r.ctx));
			OK(op_free(r.ctx, memory));
			free(host);
		}
	OK(op_free(r.ctx, NULL));
	rig_close(&r);
}

/* More than a backend's buffers hold together, in pieces of all sizes, filled by several threads.
 */
TEST(staged)
{
	const size_t bytes = 40000003;
	struct rig r = rig_open(OP_F32, 2);
	unsigned char *want = malloc(bytes), *got = malloc(bytes);
	void *device = rig_alloc(&r, bytes);

	for (size_t i = 0; i < bytes; i++)
		want[i] = (unsigned char)(i * 2654435761u >> 13);
	for (size_t at = 0, n, most = 1; at < bytes; at += n, most = most * 5 + 3) {
		char *to = (char *)device + at;
		void *host;

		n = bytes - at < most ? bytes - at : most;
		OK(op_stage(r.ctx, &host, &n, to));
		CHECK(n > 0);
		for (size_t i = 0; i < n; i++)
			((unsigned char *)host)[i] = want[at + i];
		OK(op_staged(r.ctx, to, host, n));
	}
	OK(op_download(r.ctx, got, device, bytes));
	CHECK(memcmp(got, want, bytes) == 0);
	free(want);
	free(got);
	rig_close(&r);
}

TEST(alloc_too_much)
{
	struct rig r = rig_open(OP_F32, 1);
	void *memory;

	CHECK(op_alloc(r.ctx, &memory, SIZE_MAX - 10) == OP_NO_MEMORY);
	CHECK(memory == NULL);
	CHECK(op_alloc(r.ctx, &memory, SIZE_MAX / 4) == OP_NO_MEMORY);
	CHECK(strlen(op_last_error(r.ctx)) > 0);
	rig_close(&r);
}

TEST(zero_and_copy)
{
	struct rig r = rig_open(OP_F32, 1);
	float host[3] = {1.0f, 2.0f, 3.0f}, back[3];
	float *device = rig_f32(&r, host, 3);

	OK(op_zero(r.ctx, device + 1, sizeof(float)));
	rig_get(&r, back, device, 3);
	CHECK(back[0] == 1.0f && back[1] == 0.0f && back[2] == 3.0f);
	rig_close(&r);
}

/* By hand: bf16 has 8 bits of significand, so 1 + 2^-8 lies between 1 and 1 + 2^-7. */
/* Of uploads that nobody waited for. */
TEST(closes_with_uploads_on_their_way)
{
	FOR_EACH_RIG(r)
	{
		float *a = random_floats(1000, 1.0f, 2), *device = rig_f32(&r, a, 1000);

		for (int i = 0; i < 20; i++)
			OK(op_upload(r.ctx, device, a, 1000 * sizeof(float)));
		free(a);
	}
}

TEST(round_to_nearest_even)
{
	static const struct {
		float in;
		uint16_t bits;
	} cases[] = {
	    {1.0f, 0x3f80}, {1.00390625f, 0x3f80}, /* tie: to even, down */
	    {1.01171875f, 0x3f82},		   /* 1 + 3 * 2^-8, tie: to even, up */
	    {1.00390637f, 0x3f81},		   /* just above the tie */
	    {-2.5f, 0xc020}, {0.0f, 0}, {-0.0f, 0x8000}, {INFINITY, 0x7f80}, {-INFINITY, 0xff80},
	    {3.4028235e38f, 0x7f80}, /* rounds up to infinity */
	    {1e-45f, 0},	     /* the smallest subnormal of float32 */
	    {9.1835e-41f, 0x0001},   /* the smallest of bf16 */
	};
	struct rig r = rig_open(OP_BF16, 1);
	size_t count = sizeof(cases) / sizeof(cases[0]);
	float in[64];
	uint16_t out[64];
	void *device = rig_alloc(&r, sizeof(out));

	for (size_t shift = 0; shift < 6; shift++) { /* in the vector part and in its tail */
		for (size_t i = 0; i < count; i++)
			in[i + shift] = cases[i].in;
		in[count + shift] = NAN;
		for (size_t i = 0; i < shift; i++)
			in[i] = 0.0f;
		OK(op_round(r.ctx, device, rig_f32(&r, in, count + shift + 1), count + shift + 1));
		OK(op_download(r.ctx, out, device, (count + shift + 1) * sizeof(uint16_t)));
		for (size_t i = 0; i < count; i++)
			CHECK_MSG(out[i + shift] == cases[i].bits, "%g: %04x, want %04x",
			    (double)cases[i].in, out[i + shift], cases[i].bits);
		CHECK(isnan(bf16_to_float(out[count + shift])));
	}
	rig_close(&r);
}

/* Signalling NaNs whose payload is all in the lower half must not become infinity. */
TEST(round_nan)
{
	struct rig r = rig_open(OP_BF16, 1);
	float in[2] = {float_of_bits(0x7f800001), float_of_bits(0xffffffff)};
	uint16_t out[2];
	void *device = rig_alloc(&r, sizeof(out));

	OK(op_round(r.ctx, device, rig_f32(&r, in, 2), 2));
	OK(op_download(r.ctx, out, device, sizeof(out)));
	CHECK(isnan(bf16_to_float(out[0])));
	CHECK(isnan(bf16_to_float(out[1])));
	rig_close(&r);
}

TEST(round_copies_f32)
{
	struct rig r = rig_open(OP_F32, 2);
	size_t n = 40009;
	float *in = random_floats(n, 3.0f, 1), *out = malloc(n * sizeof(float));
	void *device = rig_f32(&r, NULL, n);

	OK(op_round(r.ctx, device, rig_f32(&r, in, n), n));
	rig_get(&r, out, device, n);
	CHECK(memcmp(in, out, n * sizeof(float)) == 0);
	free(in);
	free(out);
	rig_close(&r);
}

TEST(add)
{
	static const size_t sizes[] = {0, 1, 7, 31, 1025, 40009};

	FOR_EACH_RIG(r)
	for (size_t s = 0; s < 2 * (sizeof(sizes) / sizeof(sizes[0])); s++) {
		size_t n = sizes[s / 2], wrong = 0;
		float *a = random_floats(n, 1.0f, 2), *b = random_floats(n, 1.0f, 3);
		float *out = malloc(n * sizeof(float) + 1), *device, *in;
		void *branch;

		r.offset = s % 2 * 4; /* aligned, and not */
		device = rig_f32(&r, NULL, n), in = rig_f32(&r, a, n), branch = rig_act(&r, b, n);
		OK(op_add(r.ctx, device, in, branch, n));
		rig_get(&r, out, device, n);
		for (size_t i = 0; i < n; i++)
			wrong += out[i] != a[i] + b[i];
		if (r.act == OP_F32) { /* in place */
			OK(op_add(r.ctx, branch, in, branch, n));
			rig_get(&r, out, branch, n);
			for (size_t i = 0; i < n; i++)
				wrong += out[i] != a[i] + b[i];
		}
		CHECK(wrong == 0);
		free(a);
		free(b);
		free(out);
		rig_clear(&r);
	}
}

/* Several on their way at once, of memory that changes meanwhile. */
TEST(fetch)
{
	enum { COUNT = 3, SIZE = 1000 };
	struct rig r = rig_open(OP_F32, 1);
	unsigned char *device = rig_alloc(&r, SIZE), *host, want[SIZE];
	void *memory;

	OK(op_host_alloc(r.ctx, &memory, (size_t)COUNT * SIZE));
	host = memory;
	for (int i = 0; i < COUNT; i++) {
		memset(want, 7 + i, SIZE);
		OK(op_upload(r.ctx, device, want, SIZE));
		OK(op_fetch(r.ctx, host + (size_t)i * SIZE, device, SIZE));
	}
	OK(op_fetch(r.ctx, host, device, 0));
	OK(op_sync(r.ctx));
	for (size_t i = 0; i < (size_t)COUNT * SIZE; i++)
		CHECK_MSG(host[i] == 7 + i / SIZE, "byte %zu: %d", i, host[i]);
	OK(op_host_free(r.ctx, memory));
	rig_close(&r);
}

TEST_MAIN(TEST_CASE(open_refuses), TEST_CASE(context), TEST_CASE(alloc), TEST_CASE(staged),
    TEST_CASE(alloc_too_much), TEST_CASE(zero_and_copy), TEST_CASE(fetch),
    TEST_CASE(closes_with_uploads_on_their_way), TEST_CASE(round_to_nearest_even),
    TEST_CASE(round_nan), TEST_CASE(round_copies_f32), TEST_CASE(add))
