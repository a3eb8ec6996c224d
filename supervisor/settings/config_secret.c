#include "supervisor/settings/config_secret.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_MAX = 4096, REASON_MAX = 256 };

static int
read_secret(char **out, const char *name, const char *path, bool strict, char *reason)
{
	char buffer[SECRET_MAX + 1];
	struct stat st;
	ssize_t len = -1;
	/* a pipe without a writer would be waited for */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &st) != 0) {
		snprintf(reason, REASON_MAX, "%s_FILE: %s", name, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		snprintf(reason, REASON_MAX, "%s_FILE is not a regular file", name);
	} else if (strict && (st.st_mode & 077) != 0) {
		snprintf(reason, REASON_MAX,
		    "%s_FILE is open to others: its mode is %04o, not 0600", name,
		    (unsigned)st.st_mode & 07777);
	} else if (strict && st.st_uid != geteuid() && st.st_uid != 0) {
		snprintf(reason, REASON_MAX, "%s_FILE belongs to another user", name);
	} else {
		len = read(fd, buffer, sizeof(buffer));
		if (len < 0)
			snprintf(reason, REASON_MAX, "%s_FILE: %s", name, strerror(errno));
		if (len > SECRET_MAX) {
			snprintf(reason, REASON_MAX, "%s_FILE is too long", name);
			len = -1;
		}
	}
	if (fd >= 0)
		close(fd);
	if (len > 0 && buffer[len - 1] == '\n')
		len--;
	if (len > 0 && buffer[len - 1] == '\r')
		len--;
	if (len >= 0 && memchr(buffer, '\0', (size_t)len) != NULL) {
		snprintf(reason, REASON_MAX, "%s_FILE is not text", name);
		len = -1;
	}
	if (len >= 0) {
		*out = strndup(buffer, (size_t)len);
		sodium_memzero(buffer, sizeof(buffer));
	}
	return len >= 0 && *out != NULL ? 0 : -EINVAL;
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
