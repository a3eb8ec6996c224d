#include "worker/train/adapter.h"

#include <math.h>

#include "kernels/philox.h"
#include "tests/unit/test.h"

/* What an adapter is laid out from: no weights, only sizes. */
static const struct model_config config = {
    .prefix = "model",
    .vocabulary = 50,
    .width = 64,
    .heads = 4,
    .kv_heads = 2,
    .head_dim = 24,
    .mlp_width = 100,
    .layer_count = 3,
    .tied_head = true,
};

/* Known answers of Philox4x32-10, from Random123's kat_vectors. */
TEST(philox_known_answers)
{
	uint32_t out[4];

	philox(out, 0, 0, 0);
	CHECK(out[0] == 0x6627e8d5 && out[1] == 0xe169c58d);
	CHECK(out[2] == 0xbc57ac4c && out[3] == 0x9b00dbd8);
	/* counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0 */
	philox(out, 0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u);
	CHECK(out[0] == 0xd16cfe09 && out[1] == 0x94fdcceb);
	CHECK(out[2] == 0x5001e420 && out[3] == 0x24126ea1);
}

TEST(all_linear_layout)
{
	struct refusal r;
	struct adapter a;

	CHECK(adapter_init(&a, &config, 5, 0, "all-linear", &r) == 0);
	CHECK(a.count == 3 * 7 * 2 && a.modules == 21 && a.alpha == 10);
	CHECK_STR(
	    a.tensors[0].key, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
	CHECK_STR(a.tensors[41].key, "base_model.model.model.layers.2.mlp.down_proj.lora_B.weight");
	CHECK(a.tensors[1].rows == 96 && a.tensors[1].cols == 5 && a.tensors[1].offset == 5 * 64);
	CHECK(a.tensors[7].rows == 64 && a.tensors[6].cols == 96);
	/* rank * (inputs + outputs) of q, k, v, o, gate, up, down in three layers */
	CHECK(a.size ==
	      3 * 5 * ((64 + 96) + 2 * (64 + 48) + (96 + 64) + 2 * (64 + 100) + (100 + 64)));
	CHECK(adapter_at(&a, 0) == &a.tensors[0] && adapter_at(&a, 319) == &a.tensors[0]);
	CHECK(adapter_at(&a, 320) == &a.tensors[1] && adapter_at(&a, a.size - 1) == &a.tensors[41]);
	CHECK(a.target_count == 7);
	CHECK_STR(a.targets[0], "down_proj");
	CHECK_STR(a.targets[6], "v_proj");
	adapter_fini(&a);
}

TEST(named_targets)
{
	struct refusal r;
	struct adapter a;

	CHECK(adapter_init(&a, &config, 4, 3, "v_proj,q_proj", &r) == 0);
	CHECK(a.count == 3 * 2 * 2 && a.alpha == 3 && a.target_count == 2);
	CHECK_STR(a.targets[0], "q_proj");
	CHECK(a.pairs[LINEAR_K].a == ADAPTER_NONE && a.pairs[LINEAR_V].a == 2);
	adapter_fini(&a);
	CHECK(adapter_init(&a, &config, 4, 0, "layers.1.mlp.up_proj", &r) == 0);
	CHECK(a.count == 2);
	CHECK_STR(a.tensors[0].key, "base_model.model.model.layers.1.mlp.up_proj.lora_A.weight");
	adapter_fini(&a);
}

TEST(refused_targets)
{
	static const char *const names[] = {"lm_head", "q_proj,lm_head", "embed_tokens", "query",
	    "q_proj,", "roj", "self_attn", "ALL-LINEAR", ""};
	struct refusal r;
	struct adapter a;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		r.status = 0;
		CHECK_MSG(adapter_init(&a, &config, 4, 0, names[i], &r) == -1, "%s", names[i]);
		CHECK(r.status == 422 && strstr(r.text, "target_modules") != NULL);
	}
	CHECK(adapter_init(&a, &config, 4, 0, "lm_head", &r) == -1);
	CHECK(strstr(r.text, "lm_head") != NULL && strstr(r.text, "tied") != NULL);
	CHECK(adapter_init(&a, &config, 0, 0, "all-linear", &r) == -1);
}

/* A is uniform in +-1/sqrt(inputs) with the variance 1/(3 inputs), B is 0. */
TEST(start_values)
{
	struct refusal r;
	struct adapter a;
	float *param, *again;

	CHECK(adapter_init(&a, &config, 64, 0, "all-linear", &r) == 0);
	param = malloc(a.size * sizeof(*param));
	again = malloc(a.size * sizeof(*param));
	adapter_start(&a, 7, param);
	for (size_t i = 0; i < a.count; i++) {
		const struct adapter_tensor *t = &a.tensors[i];
		const size_t n = t->rows * t->cols;
		double sum = 0, squares = 0, largest = 0;
		const double bound = i % 2 == 0 ? 1 / sqrt((double)t->cols) : 0;

		for (size_t j = 0; j < n; j++) {
			const double x = param[t->offset + j];

			sum += x;
			squares += x * x;
			largest = fmax(largest, fabs(x));
		}
		CHECK_MSG(largest <= bound, "%s %g", t->key, largest);
		if (bound == 0)
			continue;
		CHECK_MSG(largest > 0.99 * bound, "%s %g", t->key, largest);
		/* five standard errors */
		CHECK(fabs(sum / (double)n) < 5 * bound / sqrt(3 * (double)n));
		CHECK(fabs(squares / (double)n / (bound * bound) * 3 - 1) < 5 / sqrt((double)n));
	}
	adapter_start(&a, 7, again);
	CHECK(memcmp(param, again, a.size * sizeof(*param)) == 0);
	adapter_start(&a, 8, again);
	CHECK(memcmp(param, again, 64 * sizeof(*param)) != 0);
	/* q and k of a layer have the same shape of A and other values */
	CHECK(memcmp(param + a.tensors[0].offset, param + a.tensors[2].offset, 64 * 4) != 0);
	free(param);
	free(again);
	adapter_fini(&a);
}

/* A module's values do not depend on which others are adapted. */
TEST(start_values_are_the_modules_own)
{
	struct refusal r;
	struct adapter all, one;
	float *of_all, *of_one;

	CHECK(adapter_init(&all, &config, 3, 0, "all-linear", &r) == 0);
	CHECK(adapter_init(&one, &config, 3, 0, "layers.2.mlp.up_proj", &r) == 0);
	of_all = malloc(all.size * sizeof(float));
	of_one = malloc(one.size * sizeof(float));
	adapter_start(&all, 1, of_all);
	adapter_start(&one, 1, of_one);
	for (size_t i = 0; i < all.count; i++)
		if (strcmp(all.tensors[i].key, one.tensors[0].key) == 0)
			CHECK(memcmp(of_all + all.tensors[i].offset, of_one,
				  3 * 64 * sizeof(float)) == 0);
	free(of_all);
	free(of_one);
	adapter_fini(&all);
	adapter_fini(&one);
}

TEST_MAIN(TEST_CASE(philox_known_answers), TEST_CASE(all_linear_layout), TEST_CASE(named_targets),
    TEST_CASE(refused_targets), TEST_CASE(start_values),
    TEST_CASE(start_values_are_the_modules_own))
