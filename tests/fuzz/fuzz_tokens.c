/* Bytes as a file of tokens: a set in which every line's token goes by its name, or a sentence that
   names the line and no token. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "supervisor/http/tokens.h"
#include "supervisor/settings/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The lines of a file that was taken are `name token`, blanks around, or comments. */
static void
check_lines(const struct tokens *t, char *text)
{
	size_t lines = 0;

	for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
		char name[TOKEN_NAME_MAX + 2], token[600];
		const char *found;

		if (sscanf(line, " %65[^ \t\r] %599[^ \t\r]", name, token) != 2 || *name == '#')
			continue;
		lines++;
		found = tokens_find(t, token);
		if (found == NULL || strcmp(found, name) != 0)
			abort();
		token[strlen(token) - 1] ^= 1;
		found = tokens_find(t, token);
		if (found != NULL && strcmp(found, name) == 0)
			abort();
	}
	if (lines != tokens_count(t))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config c = {.tokens_credential = true};
	struct tokens *t;
	char path[64], reason[256] = "";
	char *text = calloc(1, size + 1);
	int fd = memfd_create("tokens", MFD_CLOEXEC), rc;

	if (text == NULL || fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	memcpy(text, data, size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	c.tokens_file = path;
	rc = tokens_read(&t, &c, reason);
	if ((rc == 0) != (t != NULL) || (rc != 0) != (*reason != '\0'))
		abort();
	if (rc == 0)
		check_lines(t, text);
	tokens_free(t);
	close(fd);
	free(text);
	return 0;
}
