/*
 * The form of STEPD_DEVICES, which is known before any GPU is looked for.
 */
#ifndef SUPERVISOR_SETTINGS_CONFIG_DEVICES_H
#define SUPERVISOR_SETTINGS_CONFIG_DEVICES_H

#include <stddef.h>

/* auto or cpu, or else names of GPUs with commas between: each an index without leading zeros, or
   what begins with GPU- or MIG-, and each once. 0, or -EINVAL and in reason what is wrong. */
int config_devices_check(const char *devices, char *reason, size_t size);

#endif
