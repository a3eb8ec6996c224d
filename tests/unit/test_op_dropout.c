#include "kernels/philox.h"
#include "tests/unit/op_test.h"

/* Known answers of the authors' Random123 (kat_vectors, philox4x32 with 10 rounds). */
TEST(philox_known_answers)
{
	static const struct {
		uint64_t seed, stream, block;
		uint32_t want[4];
	} cases[] = {
	    {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
	    {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
	    {0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88,
		{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	};

	for (size_t i = 0; i < 3; i++) {
		uint32_t got[4];

		philox(got, cases[i].seed, cases[i].stream, cases[i].block);
		CHECK_MSG(
		    memcmp(got, cases[i].want, sizeof(got)) == 0, "case %zu: %08x", i, got[0]);
	}
}

/* 400,000 draws: the share that is dropped within 5 standard deviations, and no two neighbours
   more often alike than chance. The kept ones are scaled, so the mean stays. */
TEST(statistics)
{
	static const double probabilities[] = {0.1, 0.5, 0.05, 0.9};

	FOR_EACH_RIG(r)
	for (size_t i = 0; i < 4; i++) {
		size_t n = 400009, dropped = 0, pairs = 0;
		double p = probabilities[i], deviation = sqrt(p * (1.0 - p) / (double)n);
		float *x = malloc(n * sizeof(float)), keep = 0.0f;
		void *in, *out = rig_alloc(&r, n * sizeof(float));

		for (size_t j = 0; j < n; j++)
			x[j] = 1.0f;
		in = rig_act(&r, x, n);
		OK(op_dropout(r.ctx, out, in, (float)p, 42, 0, n));
		rig_get_act(&r, x, out, n);
		for (size_t j = 0; j < n; j++) {
			dropped += x[j] == 0.0f;
			pairs += j > 0 && x[j] == 0.0f && x[j - 1] == 0.0f;
			keep = x[j] != 0.0f ? x[j] : keep;
		}
		CHECK_MSG(fabs((double)dropped / (double)n - p) < 5.0 * deviation,
		    "%zu of %zu at %g", dropped, n, p);
		deviation = sqrt(p * p * (1.0 - p * p) * 3.0 / (double)n);
		CHECK_MSG(fabs((double)pairs / (double)n - p * p) < 5.0 * deviation,
		    "%zu pairs at %g", pairs, p);
		CHECK_MSG(fabs((double)keep * (1.0 - p) - 1.0) <= act_tolerance(r.act, 1e-6),
		    "kept is %g", (double)keep);
		free(x);
		rig_clear(&r);
	}
}

/* One mask for a seed, whatever the block, the direction, the type and the threads; another for
   another seed. Offsets that are no multiple of anything, and of whole blocks of the generator. */
TEST(mask_is_a_function_of_the_index)
{
	const uint64_t begin = (1ull << 33) + 11;
	float ones[5003], all[5003], got[5003];
	bool first = true;

	for (size_t i = 0; i < 5003; i++)
		ones[i] = 1.0f;
	FOR_EACH_RIG(r)
	for (size_t shift = 0; shift < 2; shift++) {
		uint64_t offset = begin + shift;
		size_t n = 5003 - shift, cut = shift == 0 ? 1237 : 1240;
		float *want = all + shift;
		void *in = rig_act(&r, ones, n), *out = rig_alloc(&r, n * sizeof(float));
		void *dx = rig_act(&r, ones, n);
		size_t wrong = 0, same = 0, size = r.act == OP_F32 ? 4 : 2;

		OK(op_dropout(r.ctx, out, in, 0.5f, 7, offset, n));
		rig_get_act(&r, got, out, n);
		if (first)
			memcpy(want, got, n * sizeof(float));
		first = false;
		for (size_t i = 0; i < n; i++)
			wrong += got[i] != want[i];
		OK(op_dropout_backward(r.ctx, dx, in, 0.5f, 7, offset, true, cut));
		OK(op_dropout_backward(r.ctx, (char *)dx + cut * size, (char *)in + cut * size,
		    0.5f, 7, offset + cut, true, n - cut));
		rig_get_act(&r, got, dx, n);
		for (size_t i = 0; i < n; i++)
			wrong += got[i] != 1.0f + want[i];
		OK(op_dropout_backward(r.ctx, dx, in, 0.5f, 7, offset, false, n));
		rig_get_act(&r, got, dx, n);
		for (size_t i = 0; i < n; i++)
			wrong += got[i] != want[i];
		CHECK_MSG(wrong == 0, "%zu differ", wrong);
		OK(op_dropout(r.ctx, out, in, 0.5f, 8, offset, n));
		rig_get_act(&r, got, out, n);
		for (size_t i = 0; i < n; i++)
			same += got[i] == want[i];
		CHECK_MSG(same > n * 4 / 10 && same < n * 6 / 10, "%zu of %zu alike", same, n);
		rig_clear(&r);
	}
}

TEST(limits)
{
	struct rig r = rig_open(OP_F32, 1);
	float x[9], got[9], *in, *out = rig_f32(&r, NULL, 9);

	fill(x, 9, 1.0f, 1);
	in = rig_f32(&r, x, 9);
	CHECK(op_dropout(r.ctx, out, in, 1.0f, 1, 0, 9) == OP_UNSUPPORTED);
	CHECK(op_dropout(r.ctx, out, in, -0.1f, 1, 0, 9) == OP_UNSUPPORTED);
	CHECK(op_dropout_backward(r.ctx, out, in, NAN, 1, 0, true, 9) == OP_UNSUPPORTED);
	CHECK(op_dropout_backward(r.ctx, out, in, 1.0f, 1, 0, false, 9) == OP_UNSUPPORTED);
	OK(op_dropout(r.ctx, out, in, 0.0f, 1, 0, 9));
	rig_get(&r, got, out, 9);
	CHECK(memcmp(got, x, sizeof(x)) == 0);
	rig_close(&r);
}

TEST_MAIN(TEST_CASE(philox_known_answers), TEST_CASE(statistics),
    TEST_CASE(mask_is_a_function_of_the_index), TEST_CASE(limits))
