/*
 * cuBLAS' matrix product, column major: operands of one type, float32 sums, float32 out or, of
 * bfloat16 operands, bfloat16 out. Operands have to lie in one allocation each; beta 0 never reads
 * C.
 */
#include <cublas_v2.h>

#include "emu.h"

#include <stdlib.h>

#include <algorithm>

#include <emu_ptx.h>

struct emu_cublas {
	cudaStream_t stream;
	bool workspace; /* the caller's, not one of the library's own */
	bool tf32;	/* float32 operands are cut to 10 bits, as the environment may ask */
};

/* fail.cpp: as emu_refuses. */
bool emu_blas_refuses(emu_class c, const char *name, cublasStatus_t *status);

cublasStatus_t
cublasCreate(cublasHandle_t *out)
{
	cublasStatus_t status;

	if (emu_blas_refuses(EMU_BLAS, "cublasCreate", &status))
		return status;
	*out = new emu_cublas();
	(*out)->tf32 = getenv("NVIDIA_TF32_OVERRIDE") != nullptr &&
		       strcmp(getenv("NVIDIA_TF32_OVERRIDE"), "1") == 0;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasDestroy(cublasHandle_t handle)
{
	cublasStatus_t status;

	if (emu_blas_refuses(EMU_BLAS, "cublasDestroy", &status))
		return status;
	delete handle;
	return CUBLAS_STATUS_SUCCESS;
}

/* Goes back to the library's own workspace, as documented. */
cublasStatus_t
cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
	cublasStatus_t status;

	if (emu_blas_refuses(EMU_BLAS, "cublasSetStream", &status))
		return status;
	handle->stream = stream;
	handle->workspace = false;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
	cublasStatus_t status;

	(void)handle, (void)mode;
	return emu_blas_refuses(EMU_BLAS, "cublasSetMathMode", &status) ? status
									: CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes)
{
	cublasStatus_t status;

	if (emu_blas_refuses(EMU_BLAS, "cublasSetWorkspace", &status))
		return status;
	if (!emu_inside(workspace, bytes) || (uintptr_t)workspace % 256 != 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	handle->workspace = true;
	return CUBLAS_STATUS_SUCCESS;
}

const char *
cublasGetStatusString(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS ? "success" : "the library failed";
}

static size_t
size_of(cudaDataType type)
{
	return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

static float
element(const void *from, cudaDataType type, size_t at)
{
	return type == CUDA_R_32F ? ((const float *)from)[at]
				  : __uint_as_float((unsigned)((const uint16_t *)from)[at] << 16);
}

/* Rows of the left operand that lie together: as many sums as the processor's registers hold. */
enum { STRIP = 16, COLUMNS = 4 /* as add_strip has them */ };

/* Element (row, l) of the left operand (m, k): strips of STRIP rows, the last one filled up with 0.
 */
static size_t
strip_at(int row, int l, int k)
{
	return ((size_t)(row / STRIP) * k + l) * STRIP + row % STRIP;
}

/* Column-major a, transposed where asked, to float32 (m, k) in strips. */
static std::vector<float>
widen_left(const void *from, cudaDataType type, int ld, int m, int k, bool transpose)
{
	std::vector<float> to((size_t)((m + STRIP - 1) / STRIP) * STRIP * k);

	for (int j = 0; j < (transpose ? m : k); j++)
		for (int i = 0; i < (transpose ? k : m); i++)
			to[transpose ? strip_at(j, i, k) : strip_at(i, j, k)] =
			    element(from, type, (size_t)j * ld + i);
	return to;
}

/* The same of b: dense float32 columns, (k, n). */
static std::vector<float>
widen_right(const void *from, cudaDataType type, int ld, int k, int n, bool transpose)
{
	std::vector<float> to((size_t)k * n);

	for (int j = 0; j < (transpose ? k : n); j++)
		for (int i = 0; i < (transpose ? n : k); i++)
			to[transpose ? (size_t)i * k + j : (size_t)j * k + i] =
			    element(from, type, (size_t)j * ld + i);
	return to;
}

typedef float strip_sums __attribute__((vector_size(STRIP * sizeof(float))));

/* What a strip adds to COLUMNS columns from depth `from` to `end`: one chain of sums for each
   element, as the real one may have it. */
static void
add_strip(strip_sums sum[COLUMNS], const float *strip, const float *const column[COLUMNS], int from,
    int end)
{
	strip_sums s0 = sum[0], s1 = sum[1], s2 = sum[2], s3 = sum[3], x;

	for (int l = from; l < end; l++) {
		memcpy(&x, strip + (size_t)l * STRIP, sizeof(x));
		s0 += x * column[0][l];
		s1 += x * column[1][l];
		s2 += x * column[2][l];
		s3 += x * column[3][l];
	}
	sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
}

/* Each sum += part, by emu_cut. */
static void
cut_sums(strip_sums *sums, const strip_sums *parts)
{
	typedef double wide __attribute__((vector_size(STRIP * sizeof(double))));
	typedef uint64_t bits __attribute__((vector_size(STRIP * sizeof(uint64_t))));
	wide sum = __builtin_convertvector(*sums, wide) + __builtin_convertvector(*parts, wide);
	bits cut;

	memcpy(&cut, &sum, sizeof(cut));
	cut &= ~((UINT64_C(1) << 29) - 1);
	memcpy(&sum, &cut, sizeof(sum));
	*sums = __builtin_convertvector(sum, strip_sums);
}

/* The same on tensor cores: emu_ptx.h. */
static void
add_strip_tensor(strip_sums sum[COLUMNS], const float *strip, const float *const column[COLUMNS],
    int from, int end)
{
	for (; from < end; from += EMU_MMA_DEPTH) {
		strip_sums part[COLUMNS] = {};

		add_strip(part, strip, column, from, std::min(end, from + EMU_MMA_DEPTH));
		for (int j = 0; j < COLUMNS; j++)
			cut_sums(&sum[j], &part[j]);
	}
}

struct blas_operands {
	std::vector<float> left, right; /* widen_left, widen_right */
	int m, n, k;
	bool tensor_cores;
};

/* c (m, n), dense, += left . right over depth from .. end-1. */
static void
add_products(std::vector<float> &c, const blas_operands &x, int from, int end)
{
	auto add = x.tensor_cores ? add_strip_tensor : add_strip;

	for (int row = 0; row < x.m; row += STRIP)
		for (int col = 0; col < x.n; col += COLUMNS) {
			strip_sums sum[COLUMNS] = {};
			const float *column[COLUMNS];
			int rows = std::min<int>(STRIP, x.m - row);
			int cols = std::min<int>(COLUMNS, x.n - col);

			for (int j = 0; j < COLUMNS; j++)
				column[j] = &x.right[(size_t)(col + std::min(j, cols - 1)) * x.k];
			add(sum, &x.left[strip_at(row, 0, x.k)], column, from, end);
			for (int j = 0; j < cols; j++)
				for (int i = 0; i < rows; i++)
					c[(size_t)(col + j) * x.m + row + i] += sum[j][i];
		}
}

/* The library chooses among its kernels by the operands' alignment too, and they sum in other
   orders: here, of operands that are not aligned, each half of k by itself. */
static void
sum_products(std::vector<float> &product, const blas_operands &x, bool aligned)
{
	int half = aligned ? x.k : x.k / 2;

	add_products(product, x, 0, half);
	if (half < x.k)
		add_products(product, x, half, x.k);
}

/* c = by product + keep c, rounded once. product is dense. */
static void
put(void *c, cudaDataType type, int ldc, const float *product, int m, int n, float by, float keep)
{
	size_t size = size_of(type);

	for (int j = 0; j < n; j++) {
		for (int i = 0; i < m; i++) {
			size_t at = (size_t)j * ldc + i;
			float x = by * product[(size_t)j * m + i];

			if (keep != 0.0f)
				x += keep * element(c, type, at);
			if (type == CUDA_R_32F)
				((float *)c)[at] = x;
			else
				((uint16_t *)c)[at] = bf16_bits(x);
		}
		emu_race_region((char *)c + (size_t)j * ldc * size, m * size, EMU_WRITTEN);
	}
}

/* Bytes from the first to the last element of (rows, cols). */
static size_t
extent(int ld, int rows, int cols, size_t size)
{
	return rows > 0 && cols > 0 ? ((size_t)ld * (cols - 1) + rows) * size : 0;
}

/* All of a product but its checks; a and b as they are stored. */
struct emu_product {
	const void *a, *b;
	void *c;
	cudaDataType type, type_c;
	int m, n, k, lda, ldb, ldc;
	bool turn_a, turn_b, tf32;
	float by, keep;
};

static void
multiply_now(const emu_product &p)
{
	emu_heap_use heap;
	blas_operands x = {widen_left(p.a, p.type, p.lda, p.m, p.k, p.turn_a),
	    widen_right(p.b, p.type, p.ldb, p.k, p.n, p.turn_b), p.m, p.n, p.k,
	    p.type == CUDA_R_16BF};
	std::vector<float> product((size_t)p.m * p.n);

	for (std::vector<float> *operand : {&x.left, &x.right})
		for (size_t i = 0; p.tf32 && i < operand->size(); i++)
			(*operand)[i] =
			    __uint_as_float(__float_as_uint((*operand)[i]) & 0xffffe000u);
	if (p.k > 0)
		sum_products(
		    product, x, ((uintptr_t)p.a | (uintptr_t)p.b | (uintptr_t)p.c) % 256 == 0);
	put(p.c, p.type_c, p.ldc, product.data(), p.m, p.n, p.by, p.keep);
}

/* Every operand within its allocation, also when a graph is launched. */
static void
check_operands(const emu_product &p)
{
	size_t size = size_of(p.type);

	if (!emu_inside(p.a, extent(p.lda, p.turn_a ? p.k : p.m, p.turn_a ? p.m : p.k, size)) ||
	    !emu_inside(p.b, extent(p.ldb, p.turn_b ? p.n : p.k, p.turn_b ? p.k : p.n, size)) ||
	    !emu_inside(p.c, extent(p.ldc, p.m, p.n, size_of(p.type_c))))
		emu_die("cublasGemmEx: an operand is outside its allocation");
}

cublasStatus_t
cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
    int k, const void *alpha, const void *a, cudaDataType type_a, int lda, const void *b,
    cudaDataType type_b, int ldb, const void *beta, void *c, cudaDataType type_c, int ldc,
    cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
	bool turn_a = op_a == CUBLAS_OP_T, turn_b = op_b == CUBLAS_OP_T;
	emu_product p = {a, b, c, type_a, type_c, m, n, k, lda, ldb, ldc, turn_a, turn_b,
	    handle->tf32, *(const float *)alpha, *(const float *)beta};
	cublasStatus_t status;
	cudaError_t error;

	(void)algorithm;
	if (!handle->workspace)
		emu_die("cublasGemmEx: without a workspace of the caller's, results may differ");
	if (m < 0 || n < 0 || k < 0 || lda < std::max(1, turn_a ? k : m) ||
	    ldb < std::max(1, turn_b ? n : k) || ldc < std::max(1, m))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (type_a != type_b || (type_c != CUDA_R_32F && type_c != type_a) ||
	    compute != CUBLAS_COMPUTE_32F)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (emu_blas_refuses(EMU_GEMM, "cublasGemmEx", &status))
		return status;
	check_operands(p);
	/* a recording that is spoilt: the library knows no more than that it failed */
	if (emu_recorded(
		handle->stream, [=]() { check_operands(p), multiply_now(p); }, &error))
		return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
	multiply_now(p);
	return CUBLAS_STATUS_SUCCESS;
}
