#include "kernels/device.h"
#include "kernels/gpu.h"

#include <stdio.h>

const char *
device_backend(void)
{
	return "cuda";
}

int
device_count(void)
{
	int count = 0;

	if (gpu_check(NULL, cudaGetDeviceCount(&count), "cudaGetDeviceCount") != OP_OK)
		return 0;
	return count;
}

/* As nvidia-smi and CUDA_VISIBLE_DEVICES write it. */
static void
write_uuid(char *to, size_t size, const char bytes[16])
{
	static const int groups[] = {4, 2, 2, 2, 6};
	size_t at = (size_t)snprintf(to, size, "GPU");

	for (int g = 0, i = 0; g < 5; g++) {
		at += (size_t)snprintf(to + at, size - at, "-");
		for (int n = 0; n < groups[g]; n++, i++)
			at += (size_t)snprintf(
			    to + at, size - at, "%02x", (unsigned)(unsigned char)bytes[i]);
	}
}

enum op_status
device_identify(struct device_info *out, int index)
{
	cudaDeviceProp properties;

	memset(out, 0, sizeof(*out));
	GPU_TRY(gpu_check(
	    NULL, cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties"));
	snprintf(out->name, sizeof(out->name), "%s", properties.name);
	write_uuid(out->uuid, sizeof(out->uuid), properties.uuid.bytes);
	snprintf(out->bus, sizeof(out->bus), "%04x:%02x:%02x.0",
	    (unsigned)properties.pciDomainID & 0xffffu, (unsigned)properties.pciBusID & 0xffu,
	    (unsigned)properties.pciDeviceID & 0xffu);
	out->memory = properties.totalGlobalMem;
	out->major = properties.major;
	out->minor = properties.minor;
	GPU_TRY(gpu_check(NULL, cudaDriverGetVersion(&out->driver), "cudaDriverGetVersion"));
	return gpu_check(NULL, cudaRuntimeGetVersion(&out->runtime), "cudaRuntimeGetVersion");
}

enum op_status
device_memory(struct device_info *out, int index)
{
	GPU_TRY(gpu_check(NULL, cudaSetDevice(index), "cudaSetDevice"));
	return gpu_check(NULL, cudaMemGetInfo(&out->memory_free, &out->memory), "cudaMemGetInfo");
}

enum op_status
device_describe(struct device_info *out, int index)
{
	GPU_TRY(device_identify(out, index));
	return device_memory(out, index);
}
