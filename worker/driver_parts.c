#include "worker/driver_parts.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* As NVIDIA's nvml.h has them. */
typedef void *nvml_device;
struct nvml_pci {
	char bus_legacy[16];
	unsigned domain, bus, device, ids, subsystem;
	char bus_id[32];
};

static struct {
	int (*init)(void);
	int (*shutdown)(void);
	int (*by_uuid)(const char *, nvml_device *);
	int (*whole)(nvml_device, nvml_device *);
	int (*minor)(nvml_device, unsigned *);
	int (*pci)(nvml_device, struct nvml_pci *);
	int (*instance)(nvml_device, unsigned *);
	int (*share)(nvml_device, unsigned *);
} nvml;

static bool
find_functions(void *library)
{
	const struct {
		const char *name;
		void *function;
	} all[] = {
	    {"nvmlInit_v2", &nvml.init},
	    {"nvmlShutdown", &nvml.shutdown},
	    {"nvmlDeviceGetHandleByUUID", &nvml.by_uuid},
	    {"nvmlDeviceGetDeviceHandleFromMigDeviceHandle", &nvml.whole},
	    {"nvmlDeviceGetMinorNumber", &nvml.minor},
	    {"nvmlDeviceGetPciInfo_v3", &nvml.pci},
	    {"nvmlDeviceGetGpuInstanceId", &nvml.instance},
	    {"nvmlDeviceGetComputeInstanceId", &nvml.share},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		void *found = dlsym(library, all[i].name);

		if (found == NULL)
			return false;
		memcpy(all[i].function, &found, sizeof(found));
	}
	return true;
}

static bool
ask(struct driver_part *out, const char *uuid)
{
	unsigned minor, instance, share;
	struct nvml_pci pci = {.domain = 0};
	nvml_device part, whole;

	if (nvml.by_uuid(uuid, &part) != 0 || nvml.whole(part, &whole) != 0 ||
	    nvml.minor(whole, &minor) != 0 || nvml.pci(whole, &pci) != 0 ||
	    nvml.instance(part, &instance) != 0 || nvml.share(part, &share) != 0)
		return false;
	out->minor = (int)minor;
	out->instance = (int)instance;
	out->share = (int)share;
	/* The driver's folders have four digits of the domain. */
	snprintf(out->bus, sizeof(out->bus), "%04x:%02x:%02x.0", pci.domain & 0xffff,
	    pci.bus & 0xff, pci.device & 0xff);
	return true;
}

int
driver_part_find(struct driver_part *out, const char *uuid, struct refusal *r)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	bool found = false;

	if (library == NULL)
		return refuse(r, 503,
		    "accelerator unavailable: %s is a part of a GPU, and "
		    "libnvidia-ml.so.1 is not there",
		    uuid);
	if (find_functions(library) && nvml.init() == 0) {
		found = ask(out, uuid);
		nvml.shutdown();
	}
	dlclose(library);
	return found ? 0 : refuse(r, 503, "accelerator unavailable: no part of a GPU is %s", uuid);
}
