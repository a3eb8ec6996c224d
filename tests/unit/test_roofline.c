/* The roofline of tests/bench: its flops by hand, as a step on the CPU really does them, and as the
   peer's recorded step has them; times by hand. */
#include <dlfcn.h>
#include <stdatomic.h>

#include <oneapi/dnnl/dnnl.h>

#include "tests/bench/roofline_cards.h"
#include "tests/bench/roofline_ops.h"
#include "tests/bench/roofline_peer.h"
#include "tests/unit/trainer_fixture.h"

static atomic_ullong counted; /* flops of all products while counting */

/* In front of the GEMM library: counts, and hands on. All of the CPU's float32 products come
   through here. */
dnnl_status_t
dnnl_sgemm(char transa, char transb, dnnl_dim_t M, dnnl_dim_t N, dnnl_dim_t K, float alpha,
    const float *A, dnnl_dim_t lda, const float *B, dnnl_dim_t ldb, float beta, float *C,
    dnnl_dim_t ldc)
{
	dnnl_status_t (*real)(char, char, dnnl_dim_t, dnnl_dim_t, dnnl_dim_t, float, const float *,
	    dnnl_dim_t, const float *, dnnl_dim_t, float, float *, dnnl_dim_t);

	*(void **)&real = dlsym(RTLD_NEXT, "dnnl_sgemm");
	atomic_fetch_add(&counted, 2ull * (unsigned long long)(M * N) * (unsigned long long)K);
	return real(transa, transb, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}

static const struct roof_rates rates = {1e12, 1e12, 1e12, 1e12, 0, 0};

static double
flops(const struct roof_step *s, enum roof_kind kind)
{
	return s->kind[kind].flops;
}

/* As drivers name them. */
TEST(cards_are_found_by_what_the_driver_calls_them)
{
	CHECK(strcmp(roof_card_of("NVIDIA H200")->name, "H200") == 0);
	CHECK(strcmp(roof_card_of("NVIDIA H100 80GB HBM3")->name, "H100") == 0);
	CHECK(strcmp(roof_card_of("NVIDIA A100-SXM4-80GB")->name, "A100") == 0);
	CHECK(strcmp(roof_card_of("NVIDIA A10")->name, "A10") == 0);
	CHECK(roof_card_of("NVIDIA A10G") == NULL);
	CHECK(roof_card_of("NVIDIA GH200 480GB") == NULL);
	CHECK(roof_card_of("NVIDIA H100 PCIe") == NULL && roof_card_of("NVIDIA H200 NVL") == NULL);
	CHECK(roof_card_of("") == NULL);
}

/*
 * SmolLM2-135M by hand. A layer: q and o 576 * 576, k and v 192 * 576, three of 576 * 1536:
 * 3,538,944; 30 of them 106,168,320; the head 49,152 * 576. Forward 2 flops per weight and token;
 * backward, with frozen weights, 2 again for the input's gradient, but for q, k and v of the lowest
 * layer (552,960), below which nothing learns. LoRA of rank R on (N, K): 2 R (N + K) forward, twice
 * that backward, less the same three gradients of 576 inputs; the sum of N + K over a layer is
 * 10,176: (576 + 576) * 2 + (192 + 576) * 2 + (576 + 1536) * 3. Attention: T (T + 1) / 2 pairs of
 * 576 wide, two products forward, five backward.
 */
TEST(a_step_by_hand)
{
	const struct roof_model *m = roof_model_find("SmolLM2-135M");
	const struct roof_options o = {.tokens = 1000, .rank = 8};
	const double T = 1000;
	struct roof_step s;

	roof_step_make(&s, m, &o, &rates);
	CHECK(flops(&s, ROOF_LINEAR) == 2 * T * 106168320);
	CHECK(flops(&s, ROOF_LINEAR_BACKWARD) == 2 * T * (106168320 - 552960));
	CHECK(flops(&s, ROOF_HEAD) == 4 * T * 49152 * 576);
	CHECK(s.adapter == 8 * 30 * 10176);
	CHECK(flops(&s, ROOF_LORA) == 2 * T * 8 * 30 * 10176);
	CHECK(flops(&s, ROOF_LORA_BACKWARD) == 4 * T * 8 * 30 * 10176 - 3 * 2 * T * 8 * 576);
	CHECK(flops(&s, ROOF_ATTENTION) == 30 * 2 * 2 * (T * (T + 1) / 2) * 576);
	CHECK(flops(&s, ROOF_ATTENTION_BACKWARD) == 30 * 5 * 2 * (T * (T + 1) / 2) * 576);
	CHECK(s.recomputed == 0);
}

/* And but each one's product with W of the down projection, whose output is kept. */
TEST(recompute_is_all_layers_forward_but_the_last)
{
	const struct roof_model *m = roof_model_find("SmolLM2-135M");
	struct roof_options o = {.tokens = 512, .rank = 4};
	struct roof_step kept, again;
	double forward;

	roof_step_make(&kept, m, &o, &rates);
	o.recompute = 30;
	roof_step_make(&again, m, &o, &rates);
	forward = flops(&kept, ROOF_LINEAR) - 30 * 2.0 * 512 * 576 * 1536;
	forward += flops(&kept, ROOF_LORA) + flops(&kept, ROOF_ATTENTION);
	CHECK(fabs(again.recomputed / (forward * 29 / 30) - 1) < 1e-12);
	CHECK(fabs((again.total.flops - kept.total.flops) / again.recomputed - 1) < 1e-9);
}

/* Linear layers and embedding of the published models; norms are not counted here. */
TEST(the_models_are_as_large_as_published)
{
	static const struct {
		const char *name;
		double parameters;
	} published[] = {
	    {"SmolLM2-135M", 134515008},
	    {"Llama-3.2-1B", 1235814400},
	    {"Llama-3.2-3B", 3212749824},
	    {"Llama-3.1-8B", 8030261248},
	    {"Qwen3.5-4B", 4205751296},
	    {"Llama-2-7B", 6738415616},
	};

	for (size_t i = 0; i < sizeof(published) / sizeof(*published); i++) {
		const struct roof_model *m = roof_model_find(published[i].name);
		const struct roof_options o = {.tokens = 1, .rank = 1};
		struct roof_step s;
		double n;

		roof_step_make(&s, m, &o, &rates);
		n = flops(&s, ROOF_LINEAR) / 2 +
		    (double)(m->vocabulary * m->width) * (m->tied ? 1 : 2);
		CHECK_MSG(fabs(n / published[i].parameters - 1) < 5e-4, "%s: %.0f, published %.0f",
		    m->name, n, published[i].parameters);
	}
}

/* Pairs of a query and a key that the CPU multiplies: whole blocks of 64 queries against all keys
   up to the block's end. */
static double
block_pairs(size_t tokens)
{
	double pairs = 0;

	for (size_t first = 0; first < tokens; first += 64) {
		const size_t rows = tokens - first < 64 ? tokens - first : 64;

		pairs += (double)(rows * (first + rows));
	}
	return pairs;
}

/* What the products of one real step come to, to the last flop. */
static void
check_counted(size_t recompute)
{
	enum { T = 150 };
	const struct roof_model m = {
	    "tiny", 2, 20, 6, 2, 6, 27, 37, false, 0, 0, 0, 0}; /* tiny_default */
	const struct roof_options o = {
	    .tokens = T, .rank = plain.rank, .recompute = recompute, .f32 = true};
	const double q = 6 * 6, forwards = recompute == 0 ? 2 : 3; /* one layer of two twice */
	int32_t ids[T + 1];
	uint8_t supervised[T + 1];
	const struct datum datum = {.id = "d",
	    .length = T + 1,
	    .supervised_count = T + 1,
	    .ids = ids,
	    .supervised = supervised};
	const struct datum *list[] = {&datum};
	struct trainer_result result;
	struct refusal r = {0};
	struct roof_step s;
	struct fixture f;
	double want;

	setup(&f, OP_F32, &plain);
	for (size_t i = 0; i <= T; i++) {
		ids[i] = (int32_t)(i % f.tiny.vocabulary);
		supervised[i] = 1;
	}
	if (recompute != 0) {
		struct activations_shape shape = trainer_shape(f.t, true);

		shape.backward = true;
		shape.tokens = shape.rows = T;
		f.t->work.pass_most = memory_fit(
		    &f.t->work.acts, &f.t->work.backend, f.t->model->config, &shape, 0, 0);
	}
	atomic_store(&counted, 0);
	CHECK_MSG(trainer_step(f.t, list, 1, 1e-3, &result, &r) == 0, "%s", r.text);
	CHECK(f.t->work.acts.shape.recompute == recompute);
	roof_step_make(&s, &m, &o, &rates);
	want = s.total.flops - flops(&s, ROOF_ATTENTION) - flops(&s, ROOF_ATTENTION_BACKWARD);
	want += (forwards * 4 + 2 * 10) * block_pairs(T) * q;
	CHECK_MSG((double)counted == want, "%llu, want %.0f", (unsigned long long)counted, want);
	teardown(&f);
}

TEST(a_step_on_the_cpu_does_these_flops)
{
	check_counted(0);
	check_counted(2);
}

/* 1,000 launches of 2 ms in all. Stream: the host takes 2.1 ms, the device 2 + 0.9 ms. Graph: 2 +
   0.5 ms. PyTorch: the host takes 5 ms. And of 10 ms, where the host is ahead. */
TEST(launches_cost_what_is_published)
{
	const struct roof_sum brief = {.seconds = 2e-3, .ops = 1000};
	const struct roof_sum longer = {.seconds = 10e-3, .ops = 1000};
	const struct roof_sum empty = {.seconds = 0, .ops = 1000};

	CHECK(fabs(roof_seconds(&brief, ROOF_STREAM) - 2.9e-3) < 1e-9);
	CHECK(fabs(roof_seconds(&brief, ROOF_GRAPH) - 2.5e-3) < 1e-9);
	CHECK(fabs(roof_seconds(&brief, ROOF_EAGER) - 5e-3) < 1e-9);
	CHECK(fabs(roof_seconds(&longer, ROOF_EAGER) - 10.9e-3) < 1e-9);
	CHECK(fabs(roof_seconds(&empty, ROOF_STREAM) - 2.1e-3) < 1e-9);
}

/* An H100's 132 processors. (4096, 4096): 512 tiles of 256 * 128, 4 waves of 132: 512 / 528. (4096,
   576): no tile does better than 128 * 192, 3 columns of 32 tiles in one wave: 96 of 132, but for
   depth 4096 in four parts: 384 of 3 * 132. (1024, 128) of depth 512: 8 tiles of 128 * 128. */
TEST(tiles_fill_the_processors_in_waves)
{
	CHECK(fabs(roof_fill(4096, 4096, 576, 132) - 512.0 / 528) < 1e-12);
	CHECK(fabs(roof_fill(4096, 576, 576, 132) - 96.0 / 132) < 1e-12);
	CHECK(fabs(roof_fill(4096, 576, 4096, 132) - 384.0 / 396) < 1e-12);
	CHECK(fabs(roof_fill(1024, 128, 512, 132) - 8.0 / 132) < 1e-12);
	CHECK(roof_fill(4096, 8, 576, 132) == 1);
	CHECK(roof_fill(1024, 128, 512, 0) == 1);
}

/* A100: 312 TF, 87 % of it by products, half by attention; nine tenths of 2,039 GB/s. A product
   (4096, 4096) of depth 4096: 137.4 GFLOP, 512 tiles on 108 processors: 5 waves. H100, 989.5 TF:
   PyTorch has a faster attention there. */
TEST(what_is_expected_is_a_share_of_the_peak)
{
	const struct roof_card *card = roof_card_find("A100");
	struct roof_step s = {0};
	struct roof_rates r;
	struct roof_walk w = {.s = &s, .rates = &r, .A = 2};

	roof_rates_at_best(&r, card);
	roof_product(&w, ROOF_LINEAR, 4096, 4096, 4096, 2, 2);
	CHECK(fabs(s.total.seconds - 2.0 * 4096 * 4096 * 4096 / 312e12) < 1e-9);
	roof_rates_expected(&r, card);
	CHECK(fabs(r.attention / 156e12 - 1) < 1e-12 && fabs(r.bytes / 1835.1e9 - 1) < 1e-12);
	memset(&s, 0, sizeof(s));
	roof_product(&w, ROOF_LINEAR, 4096, 4096, 500, 2, 2);
	CHECK(fabs(s.total.seconds / (2.0 * 4096 * 4096 * 500 / (0.87 * 312e12) * 540 / 512) - 1) <
	      1e-9);
}

/* Qwen3.5-4B on an H100: 8 layers with 16 heads of 256, 4096 tokens, half of the scores. Shared
   memory has 352 cycles for 128 mma forward, that is above attention's 35 % of the peak, and 3 for
   each of backward. The sums of its rows move 2 * 2 and 12 bytes. */
TEST(shared_memory_bounds_wide_heads)
{
	const double product = 8.0 * 4096 * 4097 * 16 * 256, peak = 989.5e12,
		     rows = 8.0 * 4096 * 16;
	const double sums = rows * (4 * 256 + 12) / (0.9 * 3350e9);
	const struct roof_options o = {.tokens = 4096, .rank = 8};
	const struct roof_card *card = roof_card_find("H100");
	struct roof_step s;
	struct roof_rates r;

	roof_rates_expected(&r, card);
	roof_step_make(&s, roof_model_find("Qwen3.5-4B"), &o, &r);
	CHECK(fabs(s.kind[ROOF_ATTENTION].seconds / (2 * product / (0.35 * peak)) - 1) < 1e-9);
	CHECK(fabs(s.kind[ROOF_ATTENTION_BACKWARD].seconds / (9 * product * 3 / peak + sums) - 1) <
	      1e-9);
	r.shared = 0;
	roof_step_make(&s, roof_model_find("Qwen3.5-4B"), &o, &r);
	CHECK(fabs(s.kind[ROOF_ATTENTION_BACKWARD].seconds / (9 * product / (0.35 * peak) + sums) -
		   1) < 1e-9);
}

/* Lines of a table by hand. product: 3 * 2 * 10 * 20 * 30 flops, 3 * (2 * (10 + 20) * 30 + 4 * 10 *
   20) bytes. Attention of 10 tokens, 8 wide, keys 4, 4 heads: 55 pairs, two products of 2 flops, 2
   * 10 * (2 * 8 + 2 * 4) bytes and a float32 for each row of a head; backward five products, twice
   the bytes. moves: 7 kernels, 700 bytes. */
TEST(the_peers_table_is_added_up)
{
	static const char table[] = "# comment\n"
				    "step\ta\t10\tkept\t5000\t9\n"
				    "product\t3\t10\t20\t30\t2\t4\n"
				    "step\ta\t10\trecomputed\t4000\t9\n"
				    "attention\t1\t10\t8\t4\t4\t2\n"
				    "attention_backward\t1\t10\t8\t4\t4\t2\n"
				    "moves\t7\t700\tadd\n"
				    "step\tbad\t1\tkept\t1\t1\n"
				    "other\t1\n";
	FILE *f = fmemopen((void *)table, sizeof(table) - 1, "r");
	struct roof_peer p;

	CHECK(f != NULL);
	CHECK(roof_peer_read(&p, f, "a", 10, false, &rates) == 1);
	CHECK(p.total.flops == 36000 && p.total.bytes == 7800 && p.total.ops == 3);
	CHECK(p.memory == 5000);
	CHECK(roof_peer_read(&p, f, "a", 10, true, &rates) == 1);
	CHECK(p.total.flops == 2 * 2 * 55 * 8 + 5 * 2 * 55 * 8);
	CHECK(fabs(p.total.bytes - (640 + 1280 + 700)) < 1e-9 && p.total.ops == 9);
	CHECK(p.attention.flops == 1760 && p.attention_backward.flops == 4400);
	CHECK(p.products.ops == 0 && p.other.ops == 7);
	CHECK(p.memory == 4000);
	CHECK(roof_peer_read(&p, f, "b", 10, false, &rates) == 0);
	CHECK(roof_peer_read(&p, f, "a", 11, false, &rates) == 0);
	CHECK(roof_peer_read(&p, f, "bad", 1, false, &rates) == -1);
	fclose(f);
}

/* The peer's products and attention, as PyTorch dispatched them, are the maths of the same step. */
TEST(the_recorded_peer_does_the_same_flops)
{
	static const size_t lengths[] = {512, 4096};
	FILE *f = fopen("tests/data/peer_ops.tsv", "r");
	struct roof_step s;
	struct roof_peer p;
	size_t steps = 0;

	CHECK(f != NULL);
	for (size_t i = 0; roof_model_at(i) != NULL; i++) {
		for (size_t j = 0; j < 2; j++) {
			const struct roof_model *m = roof_model_at(i);
			const struct roof_options o = {.tokens = lengths[j], .rank = 8};

			if (roof_peer_read(&p, f, m->name, lengths[j], false, &rates) != 1)
				continue;
			roof_step_make(&s, m, &o, &rates);
			CHECK_MSG(fabs(p.total.flops / s.total.flops - 1) < 1e-12,
			    "%s, %zu tokens: %.0f, ours %.0f", m->name, lengths[j], p.total.flops,
			    s.total.flops);
			steps++;
		}
	}
	CHECK(steps == 10);
	fclose(f);
}

TEST_MAIN(TEST_CASE(cards_are_found_by_what_the_driver_calls_them), TEST_CASE(a_step_by_hand),
    TEST_CASE(recompute_is_all_layers_forward_but_the_last),
    TEST_CASE(the_models_are_as_large_as_published), TEST_CASE(a_step_on_the_cpu_does_these_flops),
    TEST_CASE(launches_cost_what_is_published), TEST_CASE(tiles_fill_the_processors_in_waves),
    TEST_CASE(what_is_expected_is_a_share_of_the_peak), TEST_CASE(shared_memory_bounds_wide_heads),
    TEST_CASE(the_peers_table_is_added_up), TEST_CASE(the_recorded_peer_does_the_same_flops))
