#include "supervisor/settings/config_secret.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/settings/secret_file.h"

enum { SECRET_MAX = 4096, REASON_MAX = 256 };

static int
read_secret(char **out, const char *name, const char *path, bool strict, char *reason)
{
	char what[80];
	size_t len;

	snprintf(what, sizeof(what), "%s_FILE", name);
	if (secret_file_read(out, path, strict, SECRET_MAX, what, reason) != 0)
		return -EINVAL;
	len = strlen(*out);
	if (len > 0 && (*out)[len - 1] == '\n')
		(*out)[--len] = '\0';
	if (len > 0 && (*out)[len - 1] == '\r')
		(*out)[--len] = '\0';
	return 0;
}

int
config_secret(char **out, const char *name, const char *value, const char *file,
    const char *credentials, char reason[256])
{
	char path[4096];
	size_t len;

	*out = NULL;
	if (value != NULL && file != NULL) {
		snprintf(reason, REASON_MAX, "%s and %s_FILE are both set", name, name);
		return -EINVAL;
	}
	if (value != NULL) {
		*out = strdup(value);
		if (*out == NULL)
			snprintf(reason, REASON_MAX, "%s: out of memory", name);
		return *out != NULL ? 0 : -EINVAL;
	}
	if (file != NULL)
		return read_secret(out, name, file, true, reason);
	if (credentials == NULL)
		return 0;
	len = (size_t)snprintf(path, sizeof(path), "%s/%s", credentials, name);
	if (len >= sizeof(path))
		return 0;
	for (char *p = strrchr(path, '/'); *p != '\0'; p++)
		*p = (char)tolower((unsigned char)*p);
	if (access(path, F_OK) != 0)
		return 0;
	return read_secret(out, name, path, false, reason);
}
