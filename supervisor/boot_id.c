#include "supervisor/boot_id.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

void
boot_id_read(char out[BOOT_ID], const char *root)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/sys/kernel/random/boot_id", root);
	file = fopen(path, "re");
	if (file == NULL || fgets(out, BOOT_ID, file) == NULL)
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	if (file != NULL)
		fclose(file);
}
