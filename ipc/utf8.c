#include "ipc/utf8.h"

#include <string.h>

size_t
utf8_get(const char *text, size_t len, uint32_t *point)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char c = s[0], low = 0x80, high = 0xbf;
	size_t more;
	uint32_t v;

	if (c < 0x80) {
		*point = c;
		return 1;
	}
	if (c < 0xc2 || c > 0xf4)
		return 0;
	more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
	v = c & (0x3fu >> more);
	if (c == 0xe0)
		low = 0xa0;
	else if (c == 0xed)
		high = 0x9f;
	else if (c == 0xf0)
		low = 0x90;
	else if (c == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i <= more; i++) {
		if (i >= len || s[i] < low || s[i] > high)
			return 0;
		v = v << 6 | (s[i] & 0x3f);
		low = 0x80;
		high = 0xbf;
	}
	*point = v;
	return more + 1;
}

size_t
utf8_valid_prefix(const void *text, size_t len)
{
	const char *s = text;
	size_t at = 0;

	while (at < len) {
		uint64_t eight;
		uint32_t point;
		size_t n;

		if (len - at >= 8) {
			memcpy(&eight, s + at, 8);
			if ((eight & 0x8080808080808080u) == 0) {
				at += 8;
				continue;
			}
		}
		n = utf8_get(s + at, len - at, &point);
		if (n == 0)
			break;
		at += n;
	}
	return at;
}

size_t
utf8_put(char *out, uint32_t point)
{
	if (point < 0x80) {
		out[0] = (char)point;
		return 1;
	}
	if (point < 0x800) {
		out[0] = (char)(0xc0 | point >> 6);
		out[1] = (char)(0x80 | (point & 0x3f));
		return 2;
	}
	if (point < 0x10000) {
		out[0] = (char)(0xe0 | point >> 12);
		out[1] = (char)(0x80 | (point >> 6 & 0x3f));
		out[2] = (char)(0x80 | (point & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | point >> 18);
	out[1] = (char)(0x80 | (point >> 12 & 0x3f));
	out[2] = (char)(0x80 | (point >> 6 & 0x3f));
	out[3] = (char)(0x80 | (point & 0x3f));
	return 4;
}

size_t
utf8_count(const void *text, size_t len)
{
	const unsigned char *s = text;
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += (s[i] & 0xc0) != 0x80;
	return n;
}
