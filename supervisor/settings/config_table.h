/* settings.h as data: for reading, printing and explaining settings. */
#ifndef SUPERVISOR_SETTINGS_CONFIG_TABLE_H
#define SUPERVISOR_SETTINGS_CONFIG_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum setting_type {
	SETTING_STRING,
	SETTING_PATH,
	SETTING_UINT,
	SETTING_SIZE,
	SETTING_SECONDS,
	SETTING_BOOL,
	SETTING_CHOICE,
};

struct setting {
	const char *name;
	enum setting_type type;
	unsigned flags;
	uint64_t min, max;
	const char *fallback; /* the default as text, or NULL */
	const char *help;
	size_t offset; /* in struct config */
};

extern const struct setting settings[]; /* ends with a NULL name */

/* Bytes as the shortest text that setting_size reads back: "64M". */
void setting_size_text(uint64_t value, char out[32]);

#endif
