#include "kernels/compute.h"
#include "tests/unit/op_test.h"

TEST(choose)
{
	CHECK(compute_choose(&(struct compute_speed){100.0, 129.0}) == OP_F32);
	CHECK(compute_choose(&(struct compute_speed){100.0, 130.0}) == OP_BF16);
	CHECK(compute_choose(&(struct compute_speed){225.0, 450.0}) == OP_BF16);
	CHECK(compute_choose(&(struct compute_speed){240.0, 155.0}) == OP_F32);
}

TEST(measure)
{
	struct compute_speed speed = {0.0, 0.0};
	struct op_options options = {.threads = 2};
	struct op_context *ctx;

	OK(compute_measure(&speed, &options, 64, 256, 192));
	CHECK(speed.f32 > 0.01 && speed.f32 < 1e6);
	CHECK(speed.bf16 == 0 || (speed.bf16 > 0.01 && speed.bf16 < 1e6));
	options.compute = OP_BF16;
	OK(op_open(&ctx, &options));
	CHECK((speed.bf16 > 0) == op_native_bf16(ctx));
	op_close(ctx);
	options.threads = -1;
	CHECK(compute_measure(&speed, &options, 64, 256, 192) == OP_UNSUPPORTED);
}

TEST_MAIN(TEST_CASE(choose), TEST_CASE(measure))
