/* The rest of CUDA's runtime: one device, streams that run everything at once. */
#include "emu.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern "C" {
/* What race.cpp does, where it is not linked. */
__attribute__((weak)) void
emu_race_segment(unsigned block, unsigned thread, unsigned barrier)
{
	(void)block, (void)thread, (void)barrier;
}
__attribute__((weak)) void
emu_race_syncwarp(unsigned first, unsigned lanes)
{
	(void)first, (void)lanes;
}
__attribute__((weak)) void
emu_race_launch(const char *kernel, bool begin)
{
	(void)kernel, (void)begin;
}
__attribute__((weak)) void
emu_race_region(void *memory, size_t bytes, emu_region region)
{
	(void)memory, (void)bytes, (void)region;
}
__attribute__((weak)) void
emu_race_access(void *memory, size_t bytes, emu_access how)
{
	(void)memory, (void)bytes, (void)how;
}
__attribute__((weak)) void
emu_atomic(void *address, size_t bytes)
{
	(void)address, (void)bytes;
}
}

/* EMU_OPEN is a file that this driver wants to read, as real ones want theirs. */
cudaError_t
cudaSetDevice(int device)
{
	const char *wanted = getenv("EMU_OPEN");
	int fd = wanted != nullptr ? open(wanted, O_RDONLY | O_CLOEXEC) : -1;
	cudaError_t error;

	if (wanted != nullptr && fd < 0)
		return emu_fail(cudaErrorOperatingSystem);
	if (fd >= 0)
		close(fd);
	if (emu_refuses(EMU_DEVICE, "cudaSetDevice", &error))
		return error;
	return device == 0 ? cudaSuccess : emu_fail(cudaErrorInvalidDevice);
}

/* EMU_DEVICES=0 is a machine without one. */
cudaError_t
cudaGetDeviceCount(int *count)
{
	cudaError_t error;

	*count = 0;
	if (emu_refuses(EMU_DEVICE, "cudaGetDeviceCount", &error))
		return error;
	*count = getenv("EMU_DEVICES") != nullptr ? atoi(getenv("EMU_DEVICES")) : 1;
	return *count > 0 ? cudaSuccess : emu_fail(cudaErrorNoDevice);
}

cudaError_t
cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
	cudaError_t error;

	if (emu_refuses(EMU_DEVICE, "cudaGetDeviceProperties", &error))
		return error;
	*out = {"emulated device", {}, emu_capability / 10, emu_capability % 10, 0, 0x3b, 0,
	    (size_t)32 << 30};
	for (int i = 0; i < 16; i++)
		out->uuid.bytes[i] = (char)(i * 16 + i);
	return device == 0 ? cudaSuccess : emu_fail(cudaErrorInvalidDevice);
}

cudaError_t
cudaDriverGetVersion(int *version)
{
	cudaError_t error;

	if (emu_refuses(EMU_DEVICE, "cudaDriverGetVersion", &error))
		return error;
	*version = 13000;
	return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
	cudaError_t error;

	if (emu_refuses(EMU_DEVICE, "cudaRuntimeGetVersion", &error))
		return error;
	*version = 13000;
	return cudaSuccess;
}

cudaError_t
cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
	cudaError_t error;

	emu_open();
	if (emu_refuses(EMU_DEVICE, "cudaDeviceGetAttribute", &error))
		return error;
	switch (attribute) {
	case cudaDevAttrMaxSharedMemoryPerBlockOptin:
		*value = (int)emu_shared_most;
		break;
	case cudaDevAttrMultiProcessorCount:
		*value = emu_huge ? 1 << 21 : 4;
		break;
	case cudaDevAttrComputeCapabilityMajor:
		*value = emu_capability / 10;
		break;
	case cudaDevAttrComputeCapabilityMinor:
		*value = emu_capability % 10;
		break;
	}
	return device == 0 ? cudaSuccess : emu_fail(cudaErrorInvalidDevice);
}

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
	cudaError_t error;

	(void)flags;
	if (emu_refuses(EMU_STREAM, "cudaStreamCreateWithFlags", &error))
		return error;
	*out = emu_stream_new();
	return cudaSuccess;
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
	cudaError_t error;

	if (emu_refuses(EMU_STREAM, "cudaStreamDestroy", &error))
		return error;
	emu_stream_free(stream);
	return cudaSuccess;
}

const char *
cudaGetErrorString(cudaError_t error)
{
	switch (error) {
	case cudaSuccess:
		return "no error";
	case cudaErrorInvalidValue:
		return "invalid argument";
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorInitializationError:
		return "initialization error";
	case cudaErrorInvalidConfiguration:
		return "invalid configuration argument";
	case cudaErrorInsufficientDriver:
		return "CUDA driver version is insufficient for CUDA runtime version";
	case cudaErrorDevicesUnavailable:
		return "CUDA-capable device(s) is/are busy or unavailable";
	case cudaErrorNoDevice:
		return "no CUDA-capable device is detected";
	case cudaErrorInvalidDevice:
		return "invalid device ordinal";
	case cudaErrorECCUncorrectable:
		return "uncorrectable ECC error encountered";
	case cudaErrorOperatingSystem:
		return "OS call failed or operation not supported on this OS";
	case cudaErrorIllegalAddress:
		return "an illegal memory access was encountered";
	case cudaErrorLaunchOutOfResources:
		return "too many resources requested for launch";
	case cudaErrorLaunchFailure:
		return "unspecified launch failure";
	case cudaErrorNotSupported:
		return "operation not supported";
	case cudaErrorStreamCaptureUnsupported:
		return "operation not permitted when stream is capturing";
	case cudaErrorStreamCaptureInvalidated:
		return "operation failed due to a previous error during capture";
	case cudaErrorCapturedEvent:
		return "operation not permitted on an event last recorded in a capturing stream";
	case cudaErrorUnknown:
		return "unknown error";
	default:
		return "unrecognized error code";
	}
}
