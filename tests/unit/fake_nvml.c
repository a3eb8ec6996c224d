/* NVIDIA's management library with one part of one GPU, for test_driver_rules. */
#include <string.h>

struct pci {
	char bus_legacy[16];
	unsigned domain, bus, device, ids, subsystem;
	char bus_id[32];
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out);
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *part, void **out);
int nvmlDeviceGetMinorNumber(void *device, unsigned *out);
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *out);
int nvmlDeviceGetGpuInstanceId(void *part, unsigned *out);
int nvmlDeviceGetComputeInstanceId(void *part, unsigned *out);

enum { INVALID = 2, UNINITIALIZED = 1 };
static int started;
static char the_gpu, the_part;

int
nvmlInit_v2(void)
{
	started++;
	return 0;
}

int
nvmlShutdown(void)
{
	started--;
	return 0;
}

int
nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
	if (started != 1)
		return UNINITIALIZED;
	*out = &the_part;
	return strcmp(uuid, "MIG-00000000-1111-2222-3333-444444444444") == 0 ? 0 : INVALID;
}

int
nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *part, void **out)
{
	*out = &the_gpu;
	return part == &the_part ? 0 : INVALID;
}

int
nvmlDeviceGetMinorNumber(void *device, unsigned *out)
{
	*out = 3;
	return device == &the_gpu ? 0 : INVALID;
}

int
nvmlDeviceGetPciInfo_v3(void *device, struct pci *out)
{
	memset(out, 0, sizeof(*out));
	out->bus = 0x86;
	return device == &the_gpu ? 0 : INVALID;
}

int
nvmlDeviceGetGpuInstanceId(void *part, unsigned *out)
{
	*out = 2;
	return part == &the_part ? 0 : INVALID;
}

int
nvmlDeviceGetComputeInstanceId(void *part, unsigned *out)
{
	*out = 0;
	return part == &the_part ? 0 : INVALID;
}
