#include "ipc/list_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void
list_text_add(char *list, size_t size, const char *format, ...)
{
	size_t len = strlen(list);
	va_list args;

	if (len > 0 && len + 2 < size)
		len += (size_t)snprintf(list + len, size - len, ", ");
	va_start(args, format);
	vsnprintf(list + len, size - len, format, args);
	va_end(args);
}
