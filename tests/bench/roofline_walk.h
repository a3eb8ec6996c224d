/*
 * A step while its ops are added up, one launch after another: the flops and bytes of each, and the
 * longer of the two on a card as its time.
 */
#ifndef TESTS_BENCH_ROOFLINE_WALK_H
#define TESTS_BENCH_ROOFLINE_WALK_H

#include "tests/bench/roofline_models.h"

/* Kinds of ops, as they are added up and shown: X(NAME, words). */
#define ROOF_KIND_LIST(X)                                                                          \
	X(LINEAR, "linear, forward")                                                               \
	X(LINEAR_BACKWARD, "linear, input gradient")                                               \
	X(LORA, "lora, forward")                                                                   \
	X(LORA_BACKWARD, "lora, backward")                                                         \
	X(ATTENTION, "attention, forward")                                                         \
	X(ATTENTION_BACKWARD, "attention, backward")                                               \
	X(DELTA, "gated DeltaNet")                                                                 \
	X(NORM, "norms")                                                                           \
	X(ROPE, "rope")                                                                            \
	X(SWIGLU, "SwiGLU")                                                                        \
	X(ROUND, "rounding to bfloat16")                                                           \
	X(RESIDUAL, "residuals + norm, embedding")                                                 \
	X(HEAD, "head and loss")                                                                   \
	X(UPDATE, "AdamW, norm of the gradient")

#define ROOF_KIND_ENUM(name, words) ROOF_##name,
enum roof_kind { ROOF_KIND_LIST(ROOF_KIND_ENUM) ROOF_KINDS };
#undef ROOF_KIND_ENUM

struct roof_sum {
	double flops, bytes;
	double seconds;	 /* each op: the longer of flops and bytes on the card */
	double by_bytes; /* seconds of those that the bytes bound */
	size_t ops;
};

/* What a card does a second. */
struct roof_rates {
	double flops;	  /* of tensor cores: bfloat16 operands, float32 sums */
	double attention; /* the same in flash attention */
	double single;	  /* float32 outside of tensor cores */
	double bytes;
	/* Flops of tensor cores, if for each mma.m16n8k16 a multiprocessor's shared memory had one
	   cycle; 0 where it is no bound. */
	double shared;
	size_t processors; /* that the tiles of a product fill in waves; 0 where none are counted */
};

struct roof_step {
	struct roof_sum kind[ROOF_KINDS];
	struct roof_sum total;
	double recomputed; /* flops of the total that were done a second time */
	size_t adapter;	   /* floats */
};

/* The step while it is added up. T tokens, D width, R rank, A bytes of the activation type. */
struct roof_walk {
	struct roof_step *s;
	const struct roof_model *m;
	const struct roof_rates *rates;
	double T, D, R, A;
	bool again; /* the forward pass in backward */
};

/* The words of ROOF_KIND_LIST. */
const char *roof_kind_words(enum roof_kind kind);
/* One launch. `rate`: flops per second of the unit that does it; `work`: how often it does each. */
void roof_op(
    struct roof_walk *w, enum roof_kind kind, double flops, double bytes, double rate, double work);
/* A launch whose few flops never bound it. */
void roof_moves(struct roof_walk *w, enum roof_kind kind, double bytes);
/* c (m, n) of depth k: operands of `size` bytes, of c `c` bytes an element in and out. */
void roof_product(
    struct roof_walk *w, enum roof_kind kind, double m, double n, double k, double size, double c);
/* Flops per second of operands of `size` bytes: float32 leaves the tensor cores out. */
double roof_rate(const struct roof_walk *w, double size);
/* The share of the processors' time in which they are busy with a product (m, n) of depth k, by the
   best of cuBLAS' large tiles: the last wave of tiles, and the last tile of a row, may be partly
   empty (NVIDIA, "Matrix Multiplication Background User's Guide"); the library may divide the depth
   in up to eight. 1 where a side is thinner than a tile: there memory is the bound. */
double roof_fill(double m, double n, double k, size_t processors);

#endif
