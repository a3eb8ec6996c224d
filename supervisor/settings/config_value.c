#include "supervisor/settings/config_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
config_value_number(const char *text, bool size, uint64_t *out)
{
	static const char units[] = "kmgt";
	char *end;
	const char *unit;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*out = strtoull(text, &end, 10);
	if (errno != 0)
		return -ERANGE;
	if (*end == '\0')
		return 0;
	unit = strchr(units, *end | 0x20);
	if (!size || unit == NULL || end[1] != '\0')
		return -EINVAL;
	if (__builtin_mul_overflow(*out, UINT64_C(1) << (10 * (unit - units + 1)), out))
		return -ERANGE;
	return 0;
}

int
config_value_bool(const char *text, bool *out)
{
	static const char *const words[] = {"false", "true", "0", "1", "no", "yes", "off", "on"};

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*out = i % 2 == 1;
			return 0;
		}
	}
	return -EINVAL;
}

char *
config_value_choice(const char *text, const char *words)
{
	for (const char *word = words;; word++) {
		size_t len = strcspn(word, "|");

		if (text == NULL || (strlen(text) == len && strncmp(text, word, len) == 0))
			return strndup(word, len);
		word += len;
		if (*word == '\0')
			return NULL;
	}
}
