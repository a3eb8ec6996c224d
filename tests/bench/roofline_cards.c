#include "tests/bench/roofline_cards.h"

#include <ctype.h>
#include <string.h>

/*
 * Peaks: makers' data sheets; where they tell only the figure with sparsity, half of it.
 *
 * Products: ml-engineering's table of maximum achievable matmul flops (Bekman, 2025): bfloat16,
 * A100 SXM 271 of 312, H100 SXM 795 of 989; the H200 is the H100's chip at the same 700 W. L4:
 * about 55 of 121 sustained, its 72 W are the limit. A10: no published figure; assumed between, as
 * its 150 W are a limit too.
 *
 * Attention: FlashAttention-2 reaches 50 to 73 % of an A100's peak (Dao 2023) and 35 % of an
 * H100's (Shah et al. 2024), where mma.sync has at most 63 % of the tensor cores (Luo et al. 2025,
 * arXiv 2501.12084). Ours works as it does and was never timed: the lower figures, and nowhere more
 * than products reach. PyTorch's scaled_dot_product_attention calls FlashAttention-2, on Hopper
 * cuDNN: 483 TFLOP/s on an H100 at 4,096 tokens (Shah et al. 2024, heads of 256).
 *
 * Cycles: a multiprocessor does 512 (GA102, AD104), 1,024 (GA100) or 2,048 (GH100) multiply-adds of
 * bfloat16 a cycle (NVIDIA's white papers of these chips); an mma.m16n8k16 is 2,048.
 */
static const struct roof_card cards[] = {
    /* NVIDIA A10 datasheet (2021): BF16 125 TF, 250 with sparsity; FP32 31.2 TF; 24 GB, 600 GB/s */
    {"A10", 125, 31.2, 600, 24, 72, 0.60, 0.50, 0.50, 4},
    /* NVIDIA L4 datasheet (2023): BFLOAT16 242 TF with sparsity; FP32 30.3 TF; 24 GB, 300 GB/s */
    {"L4", 121, 30.3, 300, 24, 58, 0.46, 0.46, 0.46, 4},
    /* NVIDIA A100 datasheet (2021), SXM 80 GB: BF16 312 TF, FP32 19.5 TF; 2,039 GB/s */
    {"A100", 312, 19.5, 2039, 80, 108, 0.87, 0.50, 0.50, 2},
    /* NVIDIA H100 datasheet (2023), SXM: BFLOAT16 1,979 TF with sparsity, FP32 67 TF; 3.35 TB/s */
    {"H100", 989.5, 67, 3350, 80, 132, 0.80, 0.35, 0.49, 1},
    /* NVIDIA H200 datasheet (2024), SXM: BFLOAT16 1,979 TF with sparsity, FP32 67 TF; 4.8 TB/s */
    {"H200", 989.5, 67, 4800, 141, 132, 0.80, 0.35, 0.49, 1},
};

/* Of the memory's speed, by kernels that only move: copies on an H100 reach 92 % of it. */
static const double moving = 0.9;

/*
 * Seconds. Host, a launch on a stream: 2.1 us on an H100 (Hazy Research, "Look Ma, No Bubbles!",
 * 2025). A graph: 2.5 us and 1 ns a kernel (NVIDIA, "Constant Time Launch for Straight-Line CUDA
 * Graphs", 2024). An op of PyTorch: 5 us, the least that is told of it (5 to 25); the peer's own
 * step took 10.8 us an op with tensors of nothing on a CPU (peer_ops.py --host). Device, from the
 * end of a kernel to the next one's start: kernels of 2.9 us take 3.8 us each on a stream, 3.4 in a
 * graph (NVIDIA, "Getting Started with CUDA Graphs", 2019); its own beginning and end, about
 * another microsecond, is in none.
 */
static const struct {
	double once, launch, gap;
} launching[] = {
    [ROOF_STREAM] = {0, 2.1e-6, 0.9e-6},
    [ROOF_GRAPH] = {2.5e-6, 1e-9, 0.5e-6},
    [ROOF_EAGER] = {0, 5e-6, 0.9e-6},
};

const struct roof_card *
roof_card_at(size_t index)
{
	return index < sizeof(cards) / sizeof(*cards) ? &cards[index] : NULL;
}

const struct roof_card *
roof_card_find(const char *name)
{
	for (size_t i = 0; roof_card_at(i) != NULL; i++)
		if (strcmp(cards[i].name, name) == 0)
			return &cards[i];
	return NULL;
}

static bool
is_word(const char *text, const char *word)
{
	const size_t len = strlen(word);

	for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
		if ((at == text || !isalnum((unsigned char)at[-1])) &&
		    !isalnum((unsigned char)at[len]))
			return true;
	return false;
}

const struct roof_card *
roof_card_of(const char *device)
{
	if (is_word(device, "PCIe") || is_word(device, "NVL"))
		return NULL;
	for (size_t i = 0; roof_card_at(i) != NULL; i++)
		if (is_word(device, cards[i].name))
			return &cards[i];
	return NULL;
}

void
roof_rates_at_best(struct roof_rates *rates, const struct roof_card *card)
{
	const double peak = card->teraflops * 1e12;

	*rates = (struct roof_rates){
	    .flops = peak,
	    .attention = peak,
	    .single = card->single * 1e12,
	    .bytes = card->gigabytes * 1e9,
	    .shared = peak * card->cycles,
	};
}

void
roof_rates_expected(struct roof_rates *rates, const struct roof_card *card)
{
	roof_rates_at_best(rates, card);
	rates->flops *= card->product;
	rates->attention *= card->attention;
	rates->bytes *= moving;
	rates->processors = card->processors;
}

void
roof_rates_peer(struct roof_rates *rates, const struct roof_card *card)
{
	roof_rates_expected(rates, card);
	rates->attention = card->teraflops * 1e12 * card->sdpa;
}

double
roof_seconds(const struct roof_sum *total, enum roof_launching how)
{
	const double ops = (double)total->ops;
	const double host = launching[how].once + launching[how].launch * ops;
	const double device = total->seconds + launching[how].gap * ops;

	return host > device ? host : device;
}
