/* The rest of CUDA's runtime: one device, streams that run everything at once, injected faults. */
#include "emu.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern "C" {
/* What race.cpp does, where it is not linked. */
__attribute__((weak)) void
emu_race_segment(unsigned block, unsigned thread, unsigned barrier, unsigned warp)
{
	(void)block, (void)thread, (void)barrier, (void)warp;
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
emu_race_access(void *memory, size_t bytes, bool write)
{
	(void)memory, (void)bytes, (void)write;
}
__attribute__((weak)) void
emu_atomic(void *address, size_t bytes)
{
	(void)address, (void)bytes;
}
}

bool
emu_fails(emu_call call)
{
	static const char *const names[EMU_CALLS] = {"launch", "malloc", "copy", "blas"};
	static const char *what;
	static long left[EMU_CALLS];
	static bool known;

	if (!known) {
		what = getenv("EMU_FAIL");
		for (int i = 0; i < EMU_CALLS && what != nullptr; i++) {
			size_t n = strlen(names[i]);

			if (strncmp(what, names[i], n) == 0 && what[n] == ':')
				left[i] = atol(what + n + 1);
		}
		known = true;
	}
	if (left[call] == 0 || --left[call] > 0)
		return false;
	fprintf(stderr, "EMU_FAIL: %s\n", names[call]);
	return true;
}

/* EMU_OPEN is a file that this driver wants to read, as real ones want theirs. */
cudaError_t
cudaSetDevice(int device)
{
	const char *wanted = getenv("EMU_OPEN");
	int fd = wanted != nullptr ? open(wanted, O_RDONLY | O_CLOEXEC) : -1;

	if (wanted != nullptr && fd < 0)
		return emu_fail(cudaErrorOperatingSystem);
	if (fd >= 0)
		close(fd);
	return device == 0 ? cudaSuccess : emu_fail(cudaErrorInvalidDevice);
}

/* EMU_DEVICES=0 is a machine without one. */
cudaError_t
cudaGetDeviceCount(int *count)
{
	*count = getenv("EMU_DEVICES") != nullptr ? atoi(getenv("EMU_DEVICES")) : 1;
	return *count > 0 ? cudaSuccess : emu_fail(cudaErrorNoDevice);
}

cudaError_t
cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
	*out = {"emulated device", {}, 8, 0, 0, 0x3b, 0, (size_t)32 << 30};
	for (int i = 0; i < 16; i++)
		out->uuid.bytes[i] = (char)(i * 16 + i);
	return device == 0 ? cudaSuccess : emu_fail(cudaErrorInvalidDevice);
}

cudaError_t
cudaDriverGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

cudaError_t
cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
	emu_open();
	switch (attribute) {
	case cudaDevAttrMaxSharedMemoryPerBlockOptin:
		*value = (int)emu_shared_most;
		break;
	case cudaDevAttrMultiProcessorCount:
		*value = 4;
		break;
	case cudaDevAttrComputeCapabilityMajor:
		*value = 8;
		break;
	case cudaDevAttrComputeCapabilityMinor:
		*value = 0;
		break;
	}
	return device == 0 ? cudaSuccess : emu_fail(cudaErrorInvalidDevice);
}

cudaError_t
cudaMallocHost(void **out, size_t bytes)
{
	*out = emu_fails(EMU_CALL_MALLOC) ? nullptr : malloc(bytes + 1);
	return *out != nullptr ? cudaSuccess : emu_fail(cudaErrorMemoryAllocation);
}

cudaError_t
cudaFreeHost(void *memory)
{
	free(memory);
	return cudaSuccess;
}

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
	(void)flags;
	*out = (cudaStream_t)malloc(1);
	return cudaSuccess;
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
	free(stream);
	return cudaSuccess;
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
	(void)stream;
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
	case cudaErrorInvalidConfiguration:
		return "invalid configuration argument";
	case cudaErrorNoDevice:
		return "no CUDA-capable device is detected";
	case cudaErrorInvalidDevice:
		return "invalid device ordinal";
	case cudaErrorOperatingSystem:
		return "OS call failed or operation not supported on this OS";
	case cudaErrorIllegalAddress:
		return "an illegal memory access was encountered";
	case cudaErrorLaunchFailure:
		return "unspecified launch failure";
	}
	return "unrecognized error code";
}
