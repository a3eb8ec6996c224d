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

/* Column-major (rows, cols) to dense float32, transposed where asked. */
static std::vector<float>
widen(const void *from, cudaDataType type, int ld, int rows, int cols, bool transpose)
{
	std::vector<float> to((size_t)rows * cols);

	for (int j = 0; j < cols; j++)
		for (int i = 0; i < rows; i++) {
			size_t at = transpose ? (size_t)i * ld + j : (size_t)j * ld + i;

			to[(size_t)j * rows + i] = element(from, type, at);
		}
	return to;
}

/* c (m, n) += a (m, k) . b (k, n): one chain of sums for each element, as the real one may have it.
 */
static void
multiply(float *c, const float *a, const float *b, int m, int n, int k, int ldb)
{
	for (int l = 0; l < k; l++)
		for (int j = 0; j < n; j++) {
			float *to = c + (size_t)j * m;
			const float *column = a + (size_t)l * m;
			float factor = b[(size_t)j * ldb + l];

			for (int i = 0; i < m; i++)
				to[i] += column[i] * factor;
		}
}

/* The same on tensor cores: emu_ptx.h. */
static void
multiply_tensor(float *c, const float *a, const float *b, int m, int n, int k, int ldb)
{
	std::vector<float> part(m);

	for (int from = 0; from < k; from += EMU_MMA_DEPTH)
		for (int j = 0; j < n; j++) {
			float *to = c + (size_t)j * m;

			std::fill(part.begin(), part.end(), 0.0f);
			for (int l = from; l < std::min(k, from + EMU_MMA_DEPTH); l++) {
				const float *column = a + (size_t)l * m;
				float factor = b[(size_t)j * ldb + l];

				for (int i = 0; i < m; i++)
					part[i] += column[i] * factor;
			}
			for (int i = 0; i < m; i++)
				to[i] = emu_cut((double)to[i] + (double)part[i]);
		}
}

/* The library chooses among its kernels by the operands' alignment too, and they sum in other
   orders: here, of operands that are not aligned, each half of k by itself. */
static void
sum_products(std::vector<float> &product, const std::vector<float> &left,
    const std::vector<float> &right, int m, int n, int k, bool tensor_cores, bool aligned)
{
	auto sum = tensor_cores ? multiply_tensor : multiply;
	int half = aligned ? k : k / 2;
	std::vector<float> rest(product.size());

	sum(product.data(), left.data(), right.data(), m, n, half, k);
	sum(rest.data(), left.data() + (size_t)half * m, right.data() + half, m, n, k - half, k);
	for (size_t i = 0; i < product.size(); i++)
		product[i] += rest[i];
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
	std::vector<float> left = widen(p.a, p.type, p.lda, p.m, p.k, p.turn_a);
	std::vector<float> right = widen(p.b, p.type, p.ldb, p.k, p.n, p.turn_b);
	std::vector<float> product((size_t)p.m * p.n);

	for (std::vector<float> *operand : {&left, &right})
		for (size_t i = 0; p.tf32 && i < operand->size(); i++)
			(*operand)[i] =
			    __uint_as_float(__float_as_uint((*operand)[i]) & 0xffffe000u);
	sum_products(product, left, right, p.m, p.n, p.k, p.type == CUDA_R_16BF,
	    ((uintptr_t)p.a | (uintptr_t)p.b | (uintptr_t)p.c) % 256 == 0);
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
