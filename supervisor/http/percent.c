#include "supervisor/http/percent.h"

#include <ctype.h>
#include <errno.h>

static int
hex(unsigned char c)
{
	if (!isxdigit(c))
		return -1;
	return isdigit(c) ? c - '0' : tolower(c) - 'a' + 10;
}

int
percent_decode(char *text)
{
	char *out = text;

	for (; *text != '\0'; text++, out++) {
		int high, low;

		*out = *text;
		if (*text != '%')
			continue;
		high = hex((unsigned char)text[1]);
		low = high < 0 ? -1 : hex((unsigned char)text[2]);
		if (low < 0 || (high == 0 && low == 0))
			return -EINVAL;
		*out = (char)(high << 4 | low);
		text += 2;
	}
	*out = '\0';
	return 0;
}
