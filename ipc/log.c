#include "ipc/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *program = "?";
static enum log_level threshold = LOG_INFO_LEVEL;
static bool journal;

void
log_open(const char *name, enum log_level level)
{
	program = name;
	threshold = level;
	journal = getenv("JOURNAL_STREAM") != NULL;
}

static const char *
level_name(enum log_level level)
{
	switch (level) {
	case LOG_ERROR_LEVEL:
		return "error";
	case LOG_WARNING_LEVEL:
		return "warning";
	case LOG_INFO_LEVEL:
		return "info";
	case LOG_DEBUG_LEVEL:
		return "debug";
	}
	return "?";
}

/* One write a line, so that lines of two processes do not mix. */
static void
log_line(enum log_level level, const char *format, va_list args)
{
	char line[1024];
	size_t used;
	int n;

	if (level > threshold)
		return;
	if (journal)
		n = snprintf(line, sizeof(line), "<%d>%s: ", level, program);
	else
		n = snprintf(line, sizeof(line), "%s: %s: ", program, level_name(level));
	used = n < 0 ? 0 : (size_t)n;
	n = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
	if (n > 0)
		used += (size_t)n < sizeof(line) - used - 1 ? (size_t)n : sizeof(line) - used - 2;
	for (size_t i = 0; i < used; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = ' ';
	line[used++] = '\n';
	if (write(STDERR_FILENO, line, used) < 0)
		return; /* nobody is left to tell */
}

void
log_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(LOG_ERROR_LEVEL, format, args);
	va_end(args);
}

void
log_warning(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(LOG_WARNING_LEVEL, format, args);
	va_end(args);
}

void
log_info(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(LOG_INFO_LEVEL, format, args);
	va_end(args);
}

void
log_debug(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(LOG_DEBUG_LEVEL, format, args);
	va_end(args);
}
