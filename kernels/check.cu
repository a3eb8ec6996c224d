/*
 * CUDA's and cuBLAS' errors: as a status with a sentence, and as what they mean for the process.
 *
 * What the device does is asynchronous: an error that a call tells may be that of an earlier one.
 * Those that end a context are told by every later call.
 */
#include "kernels/device.h"
#include "kernels/gpu.h"

#include <pthread.h>
#include <stdio.h>

/* The weights are read by several threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum device_fault noted = DEVICE_SOUND;
static char noted_text[256];

/* The graver one stays: one that says no more than "failed" may come before. */
static void
note(enum device_fault fault, const char *what, const char *why)
{
	pthread_mutex_lock(&lock);
	if (fault > noted) {
		noted = fault;
		snprintf(noted_text, sizeof(noted_text), "%s: %s", what, why);
	}
	pthread_mutex_unlock(&lock);
}

enum device_fault
device_failed(const char **text)
{
	enum device_fault fault;

	pthread_mutex_lock(&lock);
	fault = noted;
	pthread_mutex_unlock(&lock);
	*text = noted_text;
	return fault;
}

static enum device_fault
fault_of(cudaError_t error)
{
	switch (error) {
	case cudaErrorECCUncorrectable:
		return DEVICE_ECC;
	case cudaErrorInitializationError:
	case cudaErrorInsufficientDriver:
	case cudaErrorDevicesUnavailable:
	case cudaErrorNoDevice:
	case cudaErrorInvalidDevice:
	case cudaErrorStartupFailure:
	case cudaErrorNvlinkUncorrectable:
	case cudaErrorOperatingSystem:
	case cudaErrorHardwareStackError:
	case cudaErrorSystemNotReady:
	case cudaErrorSystemDriverMismatch:
	case cudaErrorUnknown:
		return DEVICE_LOST;
	default:
		return DEVICE_FAULT;
	}
}

/* What was asked for is not done; all else goes on. */
static bool
only_the_call(cudaError_t error)
{
	return error == cudaErrorInvalidValue || error == cudaErrorInvalidConfiguration ||
	       error == cudaErrorLaunchOutOfResources || error == cudaErrorNotSupported ||
	       (error >= cudaErrorStreamCaptureUnsupported &&
		   error <= cudaErrorStreamCaptureWrongThread);
}

enum op_status
gpu_check(struct op_context *ctx, cudaError_t error, const char *what)
{
	const char *why = cudaGetErrorString(error);

	if (error == cudaSuccess)
		return OP_OK;
	(void)cudaGetLastError(); /* out of the runtime: the next call is not to find it */
	if (error == cudaErrorMemoryAllocation)
		return op_fail(ctx, OP_NO_MEMORY, "%s: %s", what, why);
	if (ctx != NULL && ctx->tries && only_the_call(error))
		return op_fail(ctx, OP_UNSUPPORTED, "%s: %s", what, why);
	note(fault_of(error), what, why);
	return op_fail(ctx, OP_DEVICE_FAULT, "%s: %s", what, why);
}

/* Where the runtime knows more than cuBLAS tells, it is the runtime's. */
enum op_status
gpu_check_blas(struct op_context *ctx, cublasStatus_t status, const char *what)
{
	const char *why = cublasGetStatusString(status);
	cudaError_t error;

	if (status == CUBLAS_STATUS_SUCCESS)
		return OP_OK;
	error = cudaGetLastError();
	if (error != cudaSuccess)
		return gpu_check(ctx, error, what);
	if (status == CUBLAS_STATUS_ALLOC_FAILED)
		return op_fail(ctx, OP_NO_MEMORY, "%s: %s", what, why);
	if (ctx->tries)
		return op_fail(ctx, OP_UNSUPPORTED, "%s: %s", what, why);
	note(DEVICE_FAULT, what, why);
	return op_fail(ctx, OP_DEVICE_FAULT, "%s: %s", what, why);
}
