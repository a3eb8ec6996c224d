/*
 * Every operation of the maths, declared once for all backends.
 *
 * A backend is chosen at link time: the CPU's ops are the .c files of this folder, CUDA's the .cu
 * file of the same name beside each. A missing op is a link error. The CPU build is
 * the definition: what it computes, every backend has to compute within the tolerance that stands
 * beside the op's test.
 *
 * Shapes stand beside each pointer, row-major, `(T, D)` = T rows of D. T tokens of all packed
 * sequences, D model width, N and K outputs and inputs of a linear layer, R rank, H query heads,
 * G key/value heads, E head width, F feed-forward width, V vocabulary, S sequences, M supervised
 * rows.
 *
 * `=` overwrites, `+=` adds. Outputs first, inputs next, sizes last; a gradient is named like its
 * value with a leading d. Pointers point into the device's memory (op_alloc), unless the comment
 * says host. Nothing is allocated inside an op but in op_open: the context owns the scratch space.
 * Ops do not log and do not exit. Reduction order is fixed: the same inputs and thread count give
 * the same bits.
 *
 * Element types: OP_F32 and OP_BF16. Residual stream, norms' weights, gradients of the residual
 * stream, adapter and everything about it are float32. "act" is the context's activation type: what
 * one op hands to another within a layer, values and gradients, what enters a matrix product and is
 * kept for backward (float32, or bfloat16 when the products take bfloat16 operands). What an op
 * computes on the way is float32; it is rounded to act once, where it is written.
 */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum op_status {
	OP_OK = 0,
	OP_NO_MEMORY,	 /* host or device memory: see op_last_error */
	OP_UNSUPPORTED,	 /* this backend cannot do that: type, size */
	OP_DEVICE_FAULT, /* the device or its library failed: the process should end */
};

enum op_dtype { OP_F32 = 0, OP_BF16 = 1 };

/* A frozen weight matrix of a linear layer or an embedding, (rows, cols), in the device's memory.
 */
struct op_matrix {
	const void *data;
	size_t rows; /* N, or V */
	size_t cols; /* K, or D */
	enum op_dtype dtype;
};

/* One LoRA pair on a linear layer: y += scale * B(A x). All float32. */
struct op_lora {
	const float *a; /* (R, K) */
	const float *b; /* (N, R) */
	size_t rank;	/* R */
	float scale;	/* alpha / R */
};

enum { OP_LORA_GROUP = 4 }; /* pairs that one op takes at most */

/* One of the pairs that share x; all of a group have the same rank. */
struct op_lora_linear {
	struct op_lora lora;
	size_t outputs;	  /* N */
	float *xa;	  /* (T, R) float32 */
	void *out;	  /* forward: (T, N) act */
	const void *dout; /* backward: (T, N) act */
	float *da, *db;	  /* backward: (R, K), (N, R) float32 */
};

/* Packed sequences: sequence s holds rows start[s] .. start[s+1]-1; start[S] = T. */
struct op_packing {
	const uint32_t *start;	 /* (S+1), host */
	const int32_t *position; /* (T), device: restarts at 0 with every sequence */
	size_t sequences;	 /* S */
	size_t tokens;		 /* T */
};

struct op_attention_shape {
	size_t heads;	 /* H */
	size_t kv_heads; /* G, divides H: query head h reads key/value head h / (H/G) */
	size_t head_dim; /* E */
	size_t window;	 /* 0 = none; else token i sees j with 0 <= i-j < window */
	float scale;	 /* of the scores, usually E^-1/2 */
};

/* In double, so that 1 - beta2 and the like are taken before anything is rounded to float32. */
struct op_adamw {
	double learning_rate, beta1, beta2, epsilon, weight_decay;
	double gradient_scale; /* gradients are multiplied by this first (1 = as they are) */
	uint64_t step;	       /* from 1 */
};

struct op_options {
	enum op_dtype compute; /* operands of the matrix products, and the activation type */
	int threads;	       /* of the host: 0 = as many as may run */
	int device;	       /* CUDA: index of the device */
};

/* Backend state: threads or stream, GEMM library, scratch. One per process is enough. */
struct op_context;

/* Opens the backend. On failure *out is NULL and the reason is op_last_error(NULL). All ops are
   called from the thread that opened it: the number of threads of a product is a setting of that
   thread. */
enum op_status op_open(struct op_context **out, const struct op_options *options);
/* Frees everything; NULL is allowed. */
void op_close(struct op_context *ctx);
/* One sentence about the last failure; a view, valid until the next call. ctx may be NULL. */
const char *op_last_error(const struct op_context *ctx);
enum op_dtype op_compute(const struct op_context *ctx);
int op_threads(const struct op_context *ctx);
/* Does the device multiply bfloat16 itself? Else it computes the same products by way of float32,
   which is never faster. */
bool op_native_bf16(const struct op_context *ctx);
/* Makes sure that scratch for `bytes` is there, and what a backend keeps of a packing of so many
   tokens, so that no op has to grow it later. */
enum op_status op_reserve(struct op_context *ctx, size_t bytes, size_t tokens);

/*
 * The list of ops: X(name, parameters after the context). op_<name>(ctx, ...) returns op_status.
 */
#define OP_LIST(X)                                                                                 \
	/* Device memory. alloc: 64-byte aligned, zeroed. upload: host may change as soon as it    \
	   returns. download and sync wait for all work before them; what an op found wrong        \
	   meanwhile that it did not wait for (ids, targets) is their status. */                   \
	X(alloc, (struct op_context * ctx, void **out, size_t bytes))                              \
	X(free, (struct op_context * ctx, void *memory))                                           \
	/* Host memory, zeroed, that a device writes to without anybody waiting. */                \
	X(host_alloc, (struct op_context * ctx, void **out, size_t bytes))                         \
	X(host_free, (struct op_context * ctx, void *memory))                                      \
	X(upload, (struct op_context * ctx, void *device, const void *host, size_t bytes))         \
	/* The same without the copy on the host. stage: *host = memory for what is to be at       \
	   `device`, to be filled by whatever threads; *bytes, as many as there are to come,       \
	   become as many as it holds. staged: what was filled of it is on its way; the memory is  \
	   not to be touched any more. */                                                          \
	X(stage, (struct op_context * ctx, void **host, size_t *bytes, void *device))              \
	X(staged, (struct op_context * ctx, void *device, const void *host, size_t bytes))         \
	X(download, (struct op_context * ctx, void *host, const void *device, size_t bytes))       \
	/* The same without waiting: host, of op_host_alloc's memory, has it after the next        \
	   op_sync. */                                                                             \
	X(fetch, (struct op_context * ctx, void *host, const void *device, size_t bytes))          \
	X(zero, (struct op_context * ctx, void *device, size_t bytes))                             \
	X(sync, (struct op_context * ctx))                                                         \
	/* out (n) in type `as` = the elements that a file stores as `type`, one of dequant.h's,   \
	   as dequant_f32 and dequant_round_bf16 have them, to the bit (NaN is NaN). in need not   \
	   be aligned; n is a multiple of the type's block, else OP_UNSUPPORTED. */                \
	X(unpack, (struct op_context * ctx, void *out, enum op_dtype as, const void *in, int type, \
		      size_t n))                                                                   \
	/* out (n) act = in (n) float32, rounded to nearest even; a copy where act is float32. */  \
	X(round, (struct op_context * ctx, void *out, const float *in, size_t n))                  \
	/* out (T, D) float32 = table[ids[t]]; OP_UNSUPPORTED, now or by the next that waits: an   \
	   id that is none of the table's. */                                                      \
	X(embed, (struct op_context * ctx, float *out, const struct op_matrix *table,              \
		     const int32_t *ids, size_t tokens))                                           \
	/* RMSNorm (Zhang and Sennrich 2019, eq. 4): out act = x * rstd * (w, or 1+w),             \
	   rstd = (mean(x^2)+eps)^-1/2, kept for backward. x float32 (T, D). */                    \
	X(rmsnorm,                                                                                 \
	    (struct op_context * ctx, void *out, float *rstd, const float *x, const float *weight, \
		float epsilon, bool one_plus, size_t tokens, size_t width))                        \
	/* sum (T, D) float32 = in (T, D) float32 + branch (T, D) act, and of it the norm: add and \
	   rmsnorm in one pass, the same to the bit. Where act is float32, sum may be branch. */   \
	X(add_rmsnorm, (struct op_context * ctx, void *out, float *rstd, float *sum,               \
			   const float *in, const void *branch, const float *weight,               \
			   float epsilon, bool one_plus, size_t tokens, size_t width))             \
	/* dx (T, D) float32 += gradient through the norm; narrow (T, D) act = that dx, unless it  \
	   is NULL. dout act (T, D), may be narrow. The weight is frozen. */                       \
	X(rmsnorm_backward, (struct op_context * ctx, float *dx, void *narrow, const void *dout,   \
				const float *x, const float *weight, const float *rstd,            \
				bool one_plus, size_t tokens, size_t width))                       \
	/* out (T, N) act = or += x (T, K) act . W^T + bias (N) float32 or NULL. */                \
	X(linear, (struct op_context * ctx, void *out, const void *x, const struct op_matrix *w,   \
		      const float *bias, bool accumulate, size_t tokens))                          \
	/* dx (T, K) act = or += dout (T, N) act . W. */                                           \
	X(linear_backward, (struct op_context * ctx, void *dx, const void *dout,                   \
			       const struct op_matrix *w, bool accumulate, size_t tokens))         \
	/* For each pair of the group, whose linear layers read the same x (T, K) act: xa (T, R)   \
	   float32 = x . A^T, kept for backward; out (T, N) act = scale xa . B^T. */               \
	X(lora, (struct op_context * ctx, const struct op_lora_linear *group, size_t count,        \
		    const void *x, size_t tokens, size_t inputs))                                  \
	/* For each pair, with g = scale * dout: db (N, R) += g^T . xa; dxa = g . B;               \
	   da (R, K) += dxa^T . x; and dx (T, K) act = the sum of all dxa . A, unless dx is NULL.  \
	   Forward and backward, the product with W comes after the pairs and accumulates: it is   \
	   bound by flops, and what it reads more costs it nothing. */                             \
	X(lora_backward, (struct op_context * ctx, void *dx, const struct op_lora_linear *group,   \
			     size_t count, const void *x, size_t tokens, size_t inputs))           \
	/* Rotary embedding (Su et al. 2021), rotate-half form, in place on the first 2*half       \
	   dimensions of each of `heads` heads of x (T, heads, E) act; the angle of pair           \
	   (d, d+half) at position p is frequency[d] * p in float32 (half, device), and cos and    \
	   sin are multiplied by `magnitude`. backward: the same with the angle negated. */        \
	X(rope, (struct op_context * ctx, void *x, const struct op_packing *packing,               \
		    const float *frequency, size_t half, float magnitude, bool backward,           \
		    size_t heads, size_t head_dim))                                                \
	/* Causal attention inside each sequence. q (T, H, E), k and v (T, G, E) act;              \
	   out (T, H, E) act; lse (T, H) float32 = log sum exp of the scores, for backward. */     \
	X(attention, (struct op_context * ctx, void *out, float *lse, const void *q,               \
			 const void *k, const void *v, const struct op_packing *packing,           \
			 const struct op_attention_shape *shape))                                  \
	/* dq, dk, dv act =; dout act (T, H, E). (Dao 2023, algorithm 2.) */                       \
	X(attention_backward,                                                                      \
	    (struct op_context * ctx, void *dq, void *dk, void *dv, const void *dout,              \
		const void *out, const float *lse, const void *q, const void *k, const void *v,    \
		const struct op_packing *packing, const struct op_attention_shape *shape))         \
	/* For generation: the last of `length` tokens looks back at a cache. q (H, E), k and v    \
	   (length, G, E) act; out (H, E) act. The same maths as the last row of attention. */     \
	X(attention_cached,                                                                        \
	    (struct op_context * ctx, void *out, const void *q, const void *k, const void *v,      \
		size_t length, const struct op_attention_shape *shape))                            \
	/* out (n) act = silu(gate) * up; gate, up act. (Shazeer 2020, eq. 6) */                   \
	X(swiglu,                                                                                  \
	    (struct op_context * ctx, void *out, const void *gate, const void *up, size_t n))      \
	/* dgate, dup act (n) = ; dout act. dgate may be dout. */                                  \
	X(swiglu_backward, (struct op_context * ctx, void *dgate, void *dup, const void *dout,     \
			       const void *gate, const void *up, size_t n))                        \
	/* out (n) float32 = in (n) float32 + branch (n) act. Where act is float32, out may be     \
	   branch. */                                                                              \
	X(add,                                                                                     \
	    (struct op_context * ctx, float *out, const float *in, const void *branch, size_t n))  \
	/* out (M, D) float32 = in[rows[m]]; rows int32 on the device. */                          \
	X(gather_rows, (struct op_context * ctx, float *out, const float *in, const int32_t *rows, \
			   size_t count, size_t width))                                            \
	/* out[rows[m]] (., D) float32 += in (M, D); the rows are distinct. */                     \
	X(scatter_rows, (struct op_context * ctx, float *out, const float *in,                     \
			    const int32_t *rows, size_t count, size_t width))                      \
	/* Output head and softmax in chunks of rows, never the whole (M, V):                      \
	   logp (M) float64 = log softmax(h . W^T)[target]; where dh is not NULL, dh (M, D)        \
	   float32 = coefficient[m] * (softmax - onehot(target)) . W. h (M, D) act; targets int32  \
	   (M); coefficient float32 (M). A target that is not in the vocabulary as an id in        \
	   embed. */                                                                               \
	X(head_loss, (struct op_context * ctx, double *logp, float *dh, const void *h,             \
			 const struct op_matrix *w, const int32_t *targets,                        \
			 const float *coefficient, size_t rows))                                   \
	/* out (M, V) float32 = h (M, D) act . W^T: for looking and for generation. */             \
	X(logits, (struct op_context * ctx, float *out, const void *h, const struct op_matrix *w,  \
		      size_t rows))                                                                \
	/* AdamW (Loshchilov and Hutter 2019, algorithm 2) over one flat buffer of n. */           \
	X(adamw, (struct op_context * ctx, float *param, float *exp_avg, float *exp_avg_sq,        \
		     const float *grad, const struct op_adamw *settings, size_t n))                \
	/* *out, host = sum of squares in float64, in a fixed order. Waits, as sync does. */       \
	X(sum_squares, (struct op_context * ctx, double *out, const float *in, size_t n))          \
	/* *index, host = index of the first element that is not finite, or n. */                  \
	X(first_nonfinite, (struct op_context * ctx, size_t * index, const float *in, size_t n))   \
	/* Inverted dropout with a mask from a counter-based generator (seed, offset + index):     \
	   out (n) act = keep ? in / (1-p) : 0; in act. Run again with the same seed and offset,   \
	   it gives the same mask. */                                                              \
	X(dropout, (struct op_context * ctx, void *out, const void *in, float probability,         \
		       uint64_t seed, uint64_t offset, size_t n))                                  \
	/* dx (n) act = or += keep ? dout / (1-p) : 0, the mask as above; dout act. */             \
	X(dropout_backward,                                                                        \
	    (struct op_context * ctx, void *dx, const void *dout, float probability,               \
		uint64_t seed, uint64_t offset, bool accumulate, size_t n))

#define OP_DECLARE(name, parameters) enum op_status op_##name parameters;
OP_LIST(OP_DECLARE)
#undef OP_DECLARE

#ifdef __cplusplus
}
#endif

#endif
