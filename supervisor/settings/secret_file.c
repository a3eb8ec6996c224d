#include "supervisor/settings/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REASON_MAX = 256 };

/* May a secret lie in it? 0, or -1 with the reason. */
static int
judge(int fd, bool strict, const char *what, char *reason)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		snprintf(reason, REASON_MAX, "%s: %s", what, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		snprintf(reason, REASON_MAX, "%s is not a regular file", what);
	else if (strict && (st.st_mode & 077) != 0)
		snprintf(reason, REASON_MAX, "%s is open to others: its mode is %04o, not 0600",
		    what, (unsigned)st.st_mode & 07777);
	else if (strict && st.st_uid != geteuid() && st.st_uid != 0)
		snprintf(reason, REASON_MAX, "%s belongs to another user", what);
	else
		return 0;
	return -1;
}

static int
read_text(char **out, int fd, size_t max, const char *what, char *reason)
{
	char *text = calloc(1, max + 2); /* a byte more than may be there, and the NUL */
	size_t len = 0;
	ssize_t n = text != NULL ? 1 : -1;

	while (n > 0 && len <= max) {
		n = read(fd, text + len, max + 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		snprintf(reason, REASON_MAX, "%s: %s", what, strerror(errno));
	else if (len > max)
		snprintf(reason, REASON_MAX, "%s is too long", what);
	else if (memchr(text, '\0', len) != NULL)
		snprintf(reason, REASON_MAX, "%s is not text", what);
	else {
		*out = text;
		return 0;
	}
	if (text != NULL)
		sodium_memzero(text, max + 2);
	free(text);
	return -1;
}

int
secret_file_read(
    char **out, const char *path, bool strict, size_t max, const char *what, char reason[256])
{
	/* a pipe without a writer would be waited for */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc = -1;

	*out = NULL;
	if (fd < 0)
		snprintf(reason, REASON_MAX, "%s: %s", what, strerror(errno));
	else if (judge(fd, strict, what, reason) == 0)
		rc = read_text(out, fd, max, what, reason);
	if (fd >= 0)
		close(fd);
	return rc == 0 ? 0 : -EINVAL;
}

void
secret_free(char *secret)
{
	if (secret != NULL)
		sodium_memzero(secret, strlen(secret));
	free(secret);
}
