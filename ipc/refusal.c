#include "ipc/refusal.h"

#include <stdarg.h>
#include <stdio.h>

int
refuse(struct refusal *r, unsigned status, const char *format, ...)
{
	va_list args;

	r->status = status;
	va_start(args, format);
	vsnprintf(r->text, sizeof(r->text), format, args);
	va_end(args);
	return -1;
}
