/* The part of cuBLAS that kernels/ uses, for the emulation: column major, as the real one. */
#ifndef CUDA_EMU_CUBLAS_V2_H
#define CUDA_EMU_CUBLAS_V2_H

#include <cuda_runtime.h>

enum [[nodiscard]] cublasStatus_t : int;
enum cublasStatus_t : int {
	CUBLAS_STATUS_SUCCESS = 0,
	CUBLAS_STATUS_NOT_INITIALIZED = 1,
	CUBLAS_STATUS_ALLOC_FAILED = 3,
	CUBLAS_STATUS_INVALID_VALUE = 7,
	CUBLAS_STATUS_EXECUTION_FAILED = 13,
	CUBLAS_STATUS_INTERNAL_ERROR = 14,
	CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasMath_t {
	CUBLAS_DEFAULT_MATH = 0,
	CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
};
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
typedef cudaDataType_t cudaDataType;
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
typedef struct emu_cublas *cublasHandle_t;

extern "C" {
cublasStatus_t cublasCreate(cublasHandle_t *out);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
    int m, int n, int k, const void *alpha, const void *a, cudaDataType type_a, int lda,
    const void *b, cudaDataType type_b, int ldb, const void *beta, void *c, cudaDataType type_c,
    int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
const char *cublasGetStatusString(cublasStatus_t status);
}

#endif
