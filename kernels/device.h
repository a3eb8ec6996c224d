/*
 * Which devices this backend could compute on: for a probe that runs before any session. The CPU
 * is none of them: it is always there.
 */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct device_info {
	char name[256];
	char uuid[48]; /* GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx */
	char bus[16];  /* its place on the PCI bus, 0000:3b:00.0 */
	size_t memory; /* bytes, and those that are free */
	size_t memory_free;
	int major, minor;    /* compute capability */
	int driver, runtime; /* versions as CUDA writes them: 13000 is 13.0 */
};

/* "cpu" or "cuda". */
const char *device_backend(void);
/* Devices that this process sees; 0 where there is no driver, reason in op_last_error(NULL). */
int device_count(void);
/* Which one device `index` is: name, uuid, bus, memory, capability. It is not opened: another
   process may need all of it. Errors as op_open's. */
enum op_status device_identify(struct device_info *out, int index);
/* Opens device `index` for *out's memory and memory_free. Errors as op_open's. */
enum op_status device_memory(struct device_info *out, int index);
/* Both. Errors as op_open's, reason in op_last_error(NULL). */
enum op_status device_describe(struct device_info *out, int index);

#ifdef __cplusplus
}
#endif

#endif
