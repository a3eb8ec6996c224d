#include "supervisor/settings/config_devices.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool
is_name(const char *name, size_t len)
{
	if (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0)
		return len > 4;
	return len > 0 && strspn(name, "0123456789") == len && (*name != '0' || len == 1);
}

/* Is it in the list before that place too? */
static bool
is_before(const char *list, const char *name, size_t len)
{
	for (const char *at = list; at < name; at += strcspn(at, ",") + 1)
		if (strcspn(at, ",") == len && memcmp(at, name, len) == 0)
			return true;
	return false;
}

int
config_devices_check(const char *devices, char *reason, size_t size)
{
	if (strcmp(devices, "auto") == 0 || strcmp(devices, "cpu") == 0)
		return 0;
	for (const char *at = devices;; at++) {
		const size_t len = strcspn(at, ",");
		const int shown = len < 64 ? (int)len : 64;

		if (!is_name(at, len)) {
			snprintf(reason, size,
			    "\"%.*s\" is not the index or UUID (GPU-, MIG-) of a GPU, nor auto or "
			    "cpu alone",
			    shown, at);
			return -EINVAL;
		}
		if (is_before(devices, at, len)) {
			snprintf(reason, size, "\"%.*s\" is there only once", shown, at);
			return -EINVAL;
		}
		at += len;
		if (*at == '\0')
			return 0;
	}
}
