/*
 * Which devices this backend could compute on, for a probe that runs before any session, and
 * whether the one in use still does. The CPU is none of them: it is always there.
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

/* X(NAME, "as the class of a worker's last words"): what became of the device under this process,
   the graver behind. */
#define DEVICE_FAULT_LIST(X)                                                                       \
	X(FAULT, "device_fault") /* a kernel, a copy or a library failed on it */                  \
	X(LOST, "device_lost")	 /* it cannot be reached, or its driver does not work */           \
	X(ECC, "device_ecc")	 /* its memory lost bits */

#define DEVICE_FAULT_ENUM(name, ...) DEVICE_##name,
enum device_fault { DEVICE_SOUND = 0, DEVICE_FAULT_LIST(DEVICE_FAULT_ENUM) DEVICE_FAULTS };
#undef DEVICE_FAULT_ENUM

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
/* Whether a device failed under this process, whoever called it and whatever became of that call:
   nothing that it computed since, and nobody has waited for, is to be believed, and the process
   should end. *text: what failed, a view that stays; "" on a CPU, which does not. */
enum device_fault device_failed(const char **text);

#ifdef __cplusplus
}
#endif

#endif
