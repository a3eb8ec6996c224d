/*
 * Arrays of more than 2^32 elements: what an op does with the last of them is, bit for bit, what it
 * does with these alone. So no index of a kernel is narrower than it has to be. Runs with
 * EMU_HUGE=1, one test a process: test_huge.sh.
 */
#include <sys/resource.h>
#include <sys/time.h>

#include <signal.h>
#include <unistd.h>

#include "kernels/dequant.h"
#include "tests/unit/op_test.h"

enum {
	WIDTH = 4096,	       /* of a row */
	ROWS = (1 << 20) + 3,  /* of WIDTH: 12288 elements more than 2^32 */
	MEMORY_MOST = 3 << 20, /* KiB of this machine's */
};
static const size_t many = (size_t)ROWS * WIDTH;

/* The same op's array twice: of the many elements, and of the last ones alone. */
struct twice {
	void *at[2];
	size_t n[2], size; /* elements; bytes of one */
};

/* Of rows * width elements; the last of the first array and all of the second are `last` (NULL:
   0). */
static struct twice
twice(struct rig *r, size_t rows, size_t last_rows, size_t width, size_t size, const void *last)
{
	struct twice t = {.n = {rows * width, last_rows * width}, .size = size};

	for (int i = 0; i < 2; i++) {
		t.at[i] = rig_alloc(r, t.n[i] * size);
		if (last != NULL)
			OK(op_upload(r->ctx, (char *)t.at[i] + (t.n[i] - t.n[1]) * size, last,
			    t.n[1] * size));
	}
	return t;
}

static size_t
act_size(const struct rig *r)
{
	return r->act == OP_BF16 ? sizeof(uint16_t) : sizeof(float);
}

/* Random ones of a type. */
static struct twice
twice_random(struct rig *r, size_t rows, size_t last_rows, size_t width, size_t size, uint64_t seed)
{
	size_t n = last_rows * width;
	float *x = random_floats(n, 2.0f, seed);
	uint16_t *narrow = malloc(n * sizeof(*narrow));
	struct twice t;

	for (size_t i = 0; i < n; i++)
		narrow[i] = bf16_of_float(x[i]);
	t = twice(r, rows, last_rows, width, size, size == sizeof(float) ? (void *)x : narrow);
	free(narrow);
	free(x);
	return t;
}

static struct twice
act(struct rig *r, uint64_t seed)
{
	return twice_random(r, ROWS, 1, WIDTH, act_size(r), seed);
}

static struct twice
floats(struct rig *r, uint64_t seed)
{
	return twice_random(r, ROWS, 1, WIDTH, sizeof(float), seed);
}

/* The last elements [from, n) of both are the same, and not all one number. */
static void
check_same(struct rig *r, const struct twice *t, size_t from)
{
	size_t bytes = (t->n[1] - from) * t->size, other = 0;
	char *x[2];

	for (int i = 0; i < 2; i++) {
		x[i] = malloc(bytes);
		OK(op_download(r->ctx, x[i], (char *)t->at[i] + t->n[i] * t->size - bytes, bytes));
	}
	CHECK(memcmp(x[0], x[1], bytes) == 0);
	for (size_t i = t->size; i < bytes; i += t->size)
		other += memcmp(x[1], x[1] + i, t->size) != 0;
	CHECK_MSG(other >= (bytes / t->size) / 2, "%zu of %zu elements", other, bytes / t->size);
	free(x[0]);
	free(x[1]);
}

static void
elements(enum op_dtype type)
{
	struct rig r = rig_open(type, 1);
	struct twice a = act(&r, 1), in = floats(&r, 2), out = floats(&r, 3);

	for (int i = 0; i < 2; i++)
		OK(op_add(r.ctx, out.at[i], in.at[i], a.at[i], a.n[i]));
	check_same(&r, &out, 0);
	for (int i = 0; i < 2 && type == OP_BF16; i++) /* else a copy of all */
		OK(op_round(r.ctx, a.at[i], in.at[i], a.n[i]));
	check_same(&r, &a, 0);
	rig_close(&r);
}

static void
swiglu(enum op_dtype type)
{
	struct rig r = rig_open(type, 1);
	struct twice gate = act(&r, 1), up = act(&r, 2), d = act(&r, 3), dup = act(&r, 4);

	for (int i = 0; i < 2; i++)
		OK(op_swiglu(r.ctx, dup.at[i], gate.at[i], up.at[i], up.n[i]));
	check_same(&r, &dup, 0);
	for (int i = 0; i < 2; i++)
		OK(op_swiglu_backward(
		    r.ctx, d.at[i], dup.at[i], d.at[i], gate.at[i], up.at[i], up.n[i]));
	check_same(&r, &d, 0);
	check_same(&r, &dup, 0);
	rig_close(&r);
}

static void
dropout(enum op_dtype type)
{
	struct rig r = rig_open(type, 1);
	struct twice in = act(&r, 1), out = act(&r, 2);

	for (int i = 0; i < 2; i++)
		OK(op_dropout(r.ctx, out.at[i], in.at[i], 0.25f, 7, in.n[0] - in.n[i], in.n[i]));
	check_same(&r, &out, 0);
	for (int i = 0; i < 2; i++)
		OK(op_dropout_backward(
		    r.ctx, out.at[i], in.at[i], 0.5f, 8, in.n[0] - in.n[i], true, in.n[i]));
	check_same(&r, &out, 0);
	rig_close(&r);
}

static void
norm(enum op_dtype type)
{
	struct rig r = rig_open(type, 1);
	struct twice x = floats(&r, 1), out = act(&r, 2), dx = floats(&r, 3);
	struct twice rstd = twice(&r, ROWS, 1, 1, sizeof(float), NULL), branch = act(&r, 5);
	float *w = random_floats(WIDTH, 1.0f, 4), *weight = rig_f32(&r, w, WIDTH);

	for (int i = 0; i < 2; i++)
		OK(op_rmsnorm(
		    r.ctx, out.at[i], rstd.at[i], x.at[i], weight, 1e-5f, false, rstd.n[i], WIDTH));
	check_same(&r, &out, 0);
	for (int i = 0; i < 2; i++)
		OK(op_rmsnorm_backward(r.ctx, dx.at[i], out.at[i], out.at[i], x.at[i], weight,
		    rstd.at[i], false, rstd.n[i], WIDTH));
	check_same(&r, &dx, 0);
	check_same(&r, &out, 0);
	for (int i = 0; i < 2; i++)
		OK(op_add_rmsnorm(r.ctx, out.at[i], rstd.at[i], dx.at[i], x.at[i], branch.at[i],
		    weight, 1e-5f, false, rstd.n[i], WIDTH));
	check_same(&r, &dx, 0);
	check_same(&r, &out, 0);
	free(w);
	rig_close(&r);
}

static void
rope(enum op_dtype type)
{
	enum { HEADS = 32, DIM = WIDTH / HEADS, HALF = DIM / 2 };
	const int32_t last = 4321;
	struct rig r = rig_open(type, 1);
	struct twice x = act(&r, 1), position = twice(&r, ROWS, 1, 1, sizeof(last), &last);
	float *f = random_floats(HALF, 0.01f, 4), *frequency = rig_f32(&r, f, HALF);

	for (int i = 0; i < 2; i++) {
		struct op_packing packing = {.position = position.at[i], .tokens = position.n[i]};

		OK(op_rope(r.ctx, x.at[i], &packing, frequency, HALF, 1.0f, false, HEADS, DIM));
	}
	check_same(&r, &x, 0);
	free(f);
	rig_close(&r);
}

static void
embedding(enum op_dtype type)
{
	struct rig r = rig_open(type, 1);
	struct twice table = act(&r, 1), out = floats(&r, 2);

	for (int i = 0; i < 2; i++) {
		size_t rows = i == 0 ? ROWS : 1;
		int32_t *ids = calloc(rows, sizeof(*ids));
		struct op_matrix w = {table.at[i], rows, WIDTH, type};

		ids[rows - 1] = (int32_t)rows - 1;
		OK(op_embed(r.ctx, out.at[i], &w, rig_i32(&r, ids, rows), rows));
		OK(op_sync(r.ctx));
		free(ids);
	}
	check_same(&r, &out, 0);
	rig_close(&r);
}

TEST(picked_rows)
{
	struct rig r = rig_open(OP_F32, 1);
	struct twice in = floats(&r, 1), out = floats(&r, 2);

	for (int i = 0; i < 2; i++) {
		size_t rows = i == 0 ? ROWS : 1;
		int32_t *at = calloc(rows, sizeof(*at)), *device;

		at[rows - 1] = (int32_t)rows - 1;
		device = rig_i32(&r, at, rows);
		OK(op_gather_rows(r.ctx, out.at[i], in.at[i], device, rows, WIDTH));
		OK(op_scatter_rows(r.ctx, in.at[i], out.at[i], device, rows, WIDTH));
		free(at);
	}
	check_same(&r, &out, 0);
	check_same(&r, &in, 0);
	rig_close(&r);
}

TEST(adamw)
{
	const struct op_adamw o = {0.01, 0.9, 0.999, 1e-8, 0.1, 1.0, 3};
	struct rig r = rig_open(OP_F32, 1);
	struct twice param = floats(&r, 1), avg = floats(&r, 2), sq = floats(&r, 3);
	struct twice grad = floats(&r, 4);

	for (int i = 0; i < 2; i++)
		OK(op_adamw(r.ctx, param.at[i], avg.at[i], sq.at[i], grad.at[i], &o, grad.n[i]));
	check_same(&r, &avg, 0);
	check_same(&r, &sq, 0);
	rig_close(&r);
}

TEST(reductions)
{
	struct rig r = rig_open(OP_F32, 1);
	struct twice x = floats(&r, 1);
	const float nan = NAN;
	double sum[2];
	size_t at;

	for (int i = 0; i < 2; i++)
		OK(op_sum_squares(r.ctx, &sum[i], x.at[i], x.n[i]));
	CHECK_MSG(fabs(sum[0] - sum[1]) < 1e-9 * sum[1], "%g, %g", sum[0], sum[1]);
	OK(op_upload(r.ctx, (float *)x.at[0] + many - 2, &nan, sizeof(nan)));
	OK(op_first_nonfinite(r.ctx, &at, x.at[0], many));
	CHECK_MSG(at == many - 2, "%zu", at);
	rig_close(&r);
}

/* Random bytes are finite numbers of Q8_0 where the scales are. */
TEST(unpacked)
{
	enum { BLOCK = 34, LAST = WIDTH / 32 };
	struct rig r = rig_open(OP_F32, 1);
	unsigned char raw[LAST * BLOCK];
	struct twice in, out = twice(&r, ROWS, 1, WIDTH, sizeof(uint16_t), NULL);

	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = i % BLOCK == 0 ? 0 : i % BLOCK == 1 ? 0x3c : (unsigned char)(i * 37);
	in = twice(&r, many / 32, LAST, BLOCK, 1, raw);
	for (int i = 0; i < 2; i++)
		OK(op_unpack(r.ctx, out.at[i], OP_BF16, in.at[i], DEQUANT_Q8_0, out.n[i]));
	check_same(&r, &out, 0);
	rig_close(&r);
}

/* Sequences of 64 tokens, so that none takes long; of the blocks at the ends of the grid the last
   sequence of the last head is certain. */
static void
attention(enum op_dtype type)
{
	enum { LENGTH = 64, HEADS = 64, DIM = 128 };
	/* float32 is twice as large: a little more than 2^31 elements of each array */
	size_t sequences = (type == OP_BF16 ? 1 << 13 : 1 << 12) + 1, rows = sequences * LENGTH;
	struct op_attention_shape shape = {HEADS, HEADS, DIM, 0, 0.1f};
	uint32_t *start = calloc(sequences + 1, sizeof(*start));
	struct rig r = rig_open(type, 1);
	struct twice x[8], lse = twice(&r, rows, LENGTH, HEADS, sizeof(float), NULL);

	for (size_t i = 0; i <= sequences; i++)
		start[i] = (uint32_t)(i * LENGTH);
	for (uint64_t i = 0; i < 8; i++) /* q, k, v, out, dout, dq, dk, dv */
		x[i] = twice_random(&r, rows, LENGTH, HEADS * DIM, act_size(&r), i);
	for (int i = 0; i < 2; i++) {
		size_t count = i == 0 ? sequences : 1;
		struct op_packing packing = {start, NULL, count, count * LENGTH};

		OK(op_attention(r.ctx, x[3].at[i], lse.at[i], x[0].at[i], x[1].at[i], x[2].at[i],
		    &packing, &shape));
		OK(op_attention_backward(r.ctx, x[5].at[i], x[6].at[i], x[7].at[i], x[4].at[i],
		    x[3].at[i], lse.at[i], x[0].at[i], x[1].at[i], x[2].at[i], &packing, &shape));
	}
	check_same(&r, &lse, lse.n[1] - 1);
	for (int i = 3; i < 8; i++)
		check_same(&r, &x[i], x[i].n[1] - DIM);
	free(start);
	rig_close(&r);
}

#define OF_TYPE(name)                                                                              \
	TEST(name##_f32)                                                                           \
	{                                                                                          \
		name(OP_F32);                                                                      \
	}                                                                                          \
	TEST(name##_bf16)                                                                          \
	{                                                                                          \
		name(OP_BF16);                                                                     \
	}
OF_TYPE(elements)
OF_TYPE(swiglu)
OF_TYPE(dropout)
OF_TYPE(norm)
OF_TYPE(rope)
OF_TYPE(embedding)
OF_TYPE(attention)

/* Who touches all of an array ends here, before the machine has no memory. */
static void
look_at_memory(int signal)
{
	static const char text[] = "the op touches more memory than its last blocks should\n";
	struct rusage usage;

	(void)signal;
	getrusage(RUSAGE_SELF, &usage);
	if (usage.ru_maxrss > MEMORY_MOST)
		_exit(write(1, text, sizeof(text) - 1) < 0 ? 2 : 1);
}

#define BOTH_TYPES(name) TEST_CASE(name##_f32), TEST_CASE(name##_bf16)

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {BOTH_TYPES(elements), BOTH_TYPES(swiglu),
	    BOTH_TYPES(dropout), BOTH_TYPES(norm), BOTH_TYPES(rope), BOTH_TYPES(embedding),
	    BOTH_TYPES(attention), TEST_CASE(picked_rows), TEST_CASE(adamw), TEST_CASE(reductions),
	    TEST_CASE(unpacked), {NULL, NULL}};
	struct itimerval often = {{0, 20000}, {0, 20000}};

	if (argc < 2) {
		for (const struct test_case *c = cases; c->name != NULL; c++)
			printf("%s\n", c->name);
		return 0;
	}
	signal(SIGALRM, look_at_memory);
	setitimer(ITIMER_REAL, &often, NULL);
	return test_main(cases, argc, argv);
}
