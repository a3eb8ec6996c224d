/* The strings of a JSON text and their escapes, decoded in place: they only become shorter. */
#include <errno.h>
#include <string.h>

#include "ipc/json.h"
#include "ipc/json_doc.h"
#include "ipc/utf8.h"

struct scan {
	struct json_doc *doc;
	size_t at; /* the next byte to be read */
	struct json_error *error;
};

static int
syntax(struct scan *p, size_t byte, const char *what)
{
	return json_fail(p->error, JSON_FAULT_SYNTAX, byte, what);
}

/* Four hex digits at s, or -1. */
static int
hex4(const char *s)
{
	int v = 0;

	for (int i = 0; i < 4; i++) {
		char c = s[i];
		int digit;

		if (c >= '0' && c <= '9')
			digit = c - '0';
		else if (c >= 'a' && c <= 'f')
			digit = c - 'a' + 10;
		else if (c >= 'A' && c <= 'F')
			digit = c - 'A' + 10;
		else
			return -1;
		v = v * 16 + digit;
	}
	return v;
}

/* Decodes \uXXXX (and the second half of a pair) at p->at, which stands on the backslash. */
static int
unicode_escape(struct scan *p, char **out)
{
	const char *text = p->doc->text;
	int code = hex4(text + p->at + 2);
	uint32_t point;

	if (code < 0)
		return syntax(p, p->at + 1, "Invalid \\uXXXX escape");
	p->at += 6;
	point = (uint32_t)code;
	if (code >= 0xd800 && code < 0xdc00 && text[p->at] == '\\' && text[p->at + 1] == 'u') {
		int low = hex4(text + p->at + 2);

		if (low >= 0xdc00 && low < 0xe000) {
			point =
			    0x10000 + (((uint32_t)code - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
			p->at += 6;
		}
	}
	if (point >= 0xd800 && point < 0xe000)
		p->doc->flags |= JSON_HAS_SURROGATE;
	if (point == 0)
		p->doc->flags |= JSON_HAS_NUL;
	*out += utf8_put(*out, point);
	return 0;
}

static int
escape(struct scan *p, char **out)
{
	static const char names[] = "\"\\/bfnrt";
	static const char values[] = "\"\\/\b\f\n\r\t";
	char c = p->doc->text[p->at + 1];
	const char *found;

	if (c == 'u')
		return unicode_escape(p, out);
	found = c == '\0' ? NULL : strchr(names, c);
	if (found == NULL)
		return syntax(p, p->at, "Invalid \\escape");
	*(*out)++ = values[found - names];
	p->at += 2;
	return 0;
}

static int
decode(struct scan *p, uint32_t *offset, uint32_t *len)
{
	char *text = p->doc->text;
	size_t begin = p->at++;
	char *out = text + p->at;

	*offset = (uint32_t)p->at;
	for (;;) {
		unsigned char c = (unsigned char)text[p->at];

		if (c == '"')
			break;
		if (c < 0x20) {
			if (p->at >= p->doc->len)
				return syntax(p, begin, "Unterminated string starting at");
			return syntax(p, p->at, "Invalid control character at");
		}
		if (c != '\\') {
			*out++ = (char)c;
			p->at++;
		} else if (p->at + 1 >= p->doc->len) {
			return syntax(p, begin, "Unterminated string starting at");
		} else {
			int rc = escape(p, &out);

			if (rc != 0)
				return rc;
		}
	}
	*len = (uint32_t)(out - (text + *offset));
	*out = '\0';
	p->at++;
	return 0;
}

int
json_decode_string(
    struct json_doc *doc, size_t *at, uint32_t *offset, uint32_t *len, struct json_error *error)
{
	struct scan p = {doc, *at, error};
	int rc = decode(&p, offset, len);

	*at = p.at;
	return rc;
}

int
json_fail(struct json_error *error, enum json_fault fault, size_t byte, const char *what)
{
	error->fault = fault;
	error->byte = byte;
	error->what = what;
	return -EINVAL;
}
