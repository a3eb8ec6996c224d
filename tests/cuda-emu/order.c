/*
 * Prints a line for each op: its name, the element type and a digest of everything it put out. The
 * emulation runs threads and blocks in the order of EMU_SEED: test_order.sh compares the lines of
 * several orders, which are the same if no sum depends on who comes first.
 */
#include "tests/unit/op_test.h"

enum { T = 150, D = 96, H = 2, G = 1, V = 300, M = 21, R = 5, SEQUENCES = 3 };

static const uint32_t start[SEQUENCES + 1] = {0, 67, 68, T};

/* FNV-1a of device memory. */
static uint64_t
digest(struct rig *r, const void *device, size_t bytes)
{
	unsigned char *host = malloc(bytes + 1);
	uint64_t hash = 0xcbf29ce484222325u;

	OK(op_download(r->ctx, host, device, bytes));
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ host[i]) * 0x100000001b3u;
	free(host);
	return hash;
}

static void
tell(struct rig *r, const char *op, const void *device, size_t bytes)
{
	printf("%s %s %016llx\n", op, r->act == OP_F32 ? "f32" : "bf16",
	    (unsigned long long)digest(r, device, bytes));
}

static float *
fresh(struct rig *r, size_t n, uint64_t seed)
{
	float *host = random_floats(n, 1.0f, seed), *device = rig_f32(r, host, n);

	free(host);
	return device;
}

static void *
fresh_act(struct rig *r, size_t n, uint64_t seed)
{
	float *host = random_floats(n, 1.0f, seed);
	void *device = rig_act(r, host, n);

	free(host);
	return device;
}

static void
norms_and_products(struct rig *r)
{
	float *x = fresh(r, T * D, 1), *weight = fresh(r, D, 2), *rstd = fresh(r, T, 3);
	float *dx = fresh(r, T * D, 4), *xa = fresh(r, T * R, 6), *flat = fresh(r, T * V, 9);
	float *da = fresh(r, R * D, 7), *db = fresh(r, V * R, 8);
	void *act = fresh_act(r, T * D, 10), *out = fresh_act(r, T * V, 5);
	void *dact = fresh_act(r, T * D, 14), *dout = fresh_act(r, T * V, 15);
	size_t size = r->act == OP_F32 ? 4 : 2;
	struct op_matrix w = {fresh_act(r, V * D, 11), V, D, r->act};
	struct op_lora_linear pairs[] = {
	    {.lora = {fresh(r, R * D, 12), fresh(r, V * R, 13), R, 0.5f},
		.outputs = V,
		.xa = xa,
		.out = out,
		.dout = dout,
		.da = da,
		.db = db},
	    {.lora = {fresh(r, R * D, 16), fresh(r, D * R, 17), R, 0.5f},
		.outputs = D,
		.xa = fresh(r, T * R, 18),
		.out = fresh_act(r, T * D, 19),
		.dout = fresh_act(r, T * D, 20),
		.da = fresh(r, R * D, 21),
		.db = fresh(r, D * R, 22)}};
	double sum;

	OK(op_rmsnorm(r->ctx, act, rstd, x, weight, 1e-5f, false, T, D));
	tell(r, "rmsnorm", rstd, T * sizeof(float));
	OK(op_add_rmsnorm(r->ctx, act, rstd, flat, x, dact, weight, 1e-5f, false, T, D));
	tell(r, "add_rmsnorm", act, T * D * size);
	OK(op_rmsnorm_backward(r->ctx, dx, NULL, act, x, weight, rstd, true, T, D));
	tell(r, "rmsnorm_backward", dx, T * D * sizeof(float));
	OK(op_lora(r->ctx, pairs, 2, act, T, D));
	tell(r, "lora", out, T * V * size);
	OK(op_linear(r->ctx, out, act, &w, NULL, true, T));
	tell(r, "linear", out, T * V * size);
	OK(op_lora_backward(r->ctx, dact, pairs, 2, act, T, D));
	tell(r, "lora_backward dx", dact, T * D * size);
	OK(op_linear_backward(r->ctx, dact, dout, &w, true, T));
	tell(r, "linear_backward", dact, T * D * size);
	tell(r, "lora_backward da", da, R * D * sizeof(float));
	tell(r, "lora_backward db", db, V * R * sizeof(float));
	OK(op_sum_squares(r->ctx, &sum, flat, T * V));
	printf("sum_squares %a\n", sum);
	rig_clear(r);
}

static void
attention(struct rig *r, size_t dim)
{
	size_t nq = T * H * dim, nk = T * G * dim, size = r->act == OP_F32 ? 4 : 2;
	struct op_packing packing = {start, NULL, SEQUENCES, T};
	struct op_attention_shape shape = {H, G, dim, 40, 0.2f};
	void *q = fresh_act(r, nq, 1), *k = fresh_act(r, nk, 2), *v = fresh_act(r, nk, 3);
	void *out = fresh_act(r, nq, 4), *dout = fresh_act(r, nq, 6), *dq = fresh_act(r, nq, 7);
	void *dk = fresh_act(r, nk, 8), *dv = fresh_act(r, nk, 9);
	float *lse = fresh(r, T * H, 5);

	OK(op_attention(r->ctx, out, lse, q, k, v, &packing, &shape));
	tell(r, "attention", out, nq * size);
	tell(r, "attention lse", lse, T * H * sizeof(float));
	OK(op_attention_backward(r->ctx, dq, dk, dv, dout, out, lse, q, k, v, &packing, &shape));
	tell(r, "attention_backward dq", dq, nq * size);
	tell(r, "attention_backward dk", dk, nk * size);
	tell(r, "attention_backward dv", dv, nk * size);
	OK(op_attention_cached(r->ctx, out, q, k, v, T, &shape));
	tell(r, "attention_cached", out, H * dim * size);
	rig_clear(r);
}

static void
head_loss(struct rig *r)
{
	struct op_matrix w = {fresh_act(r, V * D, 1), V, D, r->act};
	void *hidden = fresh_act(r, M * D, 2);
	float *dh = fresh(r, M * D, 3);
	int32_t targets[M];
	double *logp = rig_alloc(r, M * sizeof(*logp)), host[M];

	for (int32_t i = 0; i < M; i++)
		targets[i] = i * 11 % V;
	OK(op_head_loss(r->ctx, logp, dh, hidden, &w, rig_i32(r, targets, M), fresh(r, M, 4), M));
	tell(r, "head_loss", dh, M * D * sizeof(float));
	OK(op_download(r->ctx, host, logp, sizeof(host)));
	for (size_t i = 0; i < M; i++)
		printf("logp %a\n", host[i]);
	rig_clear(r);
}

int
main(void)
{
	FOR_EACH_RIG(r)
	{
		norms_and_products(&r);
		attention(&r, 64);
		attention(&r, 20);
		head_loss(&r);
	}
	return test_failed_checks != 0;
}
