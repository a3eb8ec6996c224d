/* Every stored type against the values that gguf-py computes, bit for bit. */
#include "kernels/dequant.h"

#include "tests/unit/dequant_values.h"
#include "tests/unit/test.h"

static void
check_type(enum dequant_type type, const unsigned char *raw, size_t raw_size,
    const uint32_t *values, size_t count)
{
	const struct dequant_format *f = dequant_format(type);
	unsigned char shifted[1024];
	float out[512];
	size_t differences = 0;

	CHECK_MSG(f != NULL && count / f->block * f->bytes == raw_size, "type %d", type);
	memcpy(shifted + 1, raw, raw_size); /* data in a file need not be aligned */
	dequant_f32(type, out, shifted + 1, count);
	for (size_t i = 0; i < count; i++)
		differences += memcmp(&out[i], &values[i], sizeof(float)) != 0;
	CHECK_MSG(differences == 0, "%s: %zu of %zu differ", f->name, differences, count);
}

#define CHECK_TYPE(name)                                                                           \
	check_type(DEQUANT_##name, raw_##name, sizeof(raw_##name), values_##name,                  \
	    sizeof(values_##name) / sizeof(values_##name[0]))

TEST(types)
{
	CHECK_TYPE(F16);
	CHECK_TYPE(BF16);
	CHECK_TYPE(Q4_0);
	CHECK_TYPE(Q4_1);
	CHECK_TYPE(Q5_0);
	CHECK_TYPE(Q5_1);
	CHECK_TYPE(Q8_0);
	CHECK_TYPE(Q4_K);
	CHECK_TYPE(Q5_K);
	CHECK_TYPE(Q6_K);
}

TEST(names)
{
	CHECK(dequant_format(9) == NULL);
	CHECK(dequant_format(4096) == NULL);
	CHECK_STR(dequant_type_name(23), "IQ4_XS");
	CHECK_STR(dequant_type_name(14), "Q6_K");
	CHECK_STR(dequant_type_name(77), "unknown");
}

/* Ties go to the even neighbour; the largest finite values round to infinity. */
TEST(rounding)
{
	static const struct {
		uint32_t in;
		uint16_t out;
	} cases[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82},
	    {0x3f808001, 0x3f81}, {0x7f7fffff, 0x7f80}, {0xff800000, 0xff80}, {0x80000000, 0x8000},
	    {0x00008000, 0x0000}, {0x00018000, 0x0002}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint16_t out;
		float in;

		memcpy(&in, &cases[i].in, sizeof(in));
		dequant_round_bf16(&out, &in, 1);
		CHECK_MSG(out == cases[i].out, "%08x became %04x", cases[i].in, out);
	}
	for (uint32_t bits = 0x7f800001; bits < 0x7f900000; bits += 0x7fff) {
		uint16_t out;
		float in;

		memcpy(&in, &bits, sizeof(in));
		dequant_round_bf16(&out, &in, 1);
		CHECK((out & 0x7f80) == 0x7f80 && (out & 0x7f) != 0);
	}
}

TEST_MAIN(TEST_CASE(types), TEST_CASE(names), TEST_CASE(rounding))
