#include "supervisor/http/http_chunk.h"

#include <ctype.h>

enum { EXTRA_MAX = 4096, SIZE_DIGITS = 15 };

enum state {
	SIZE,	   /* hex digits */
	EXTENSION, /* up to the line's end */
	SIZE_LF,   /* after its CR */
	DATA,	   /* left bytes */
	DATA_CR,   /* the CR LF that ends a chunk */
	DATA_LF,
	TRAILER_START, /* a trailer line, or the end */
	TRAILER,
	TRAILER_LF,
	END_LF,
	END,
};

static unsigned
hex_value(unsigned char c)
{
	return isdigit(c) ? (unsigned)c - '0' : (unsigned)tolower(c) - 'a' + 10;
}

static int
is_text(unsigned char c)
{
	return c == '\t' || (c >= ' ' && c != 0x7f);
}

/* One byte outside of a chunk's data: 0, or -1 if it cannot stand here. */
static int
step(struct http_chunk *c, unsigned char b)
{
	switch ((enum state)c->state) {
	case SIZE:
		if (isxdigit(b)) {
			if (++c->digits > SIZE_DIGITS)
				return -1;
			c->left = c->left << 4 | hex_value(b);
			return 0;
		}
		if (c->digits == 0)
			return -1;
		c->state = b == '\r' ? SIZE_LF : EXTENSION;
		/* no space: readers differ on whether the size ends there */
		return b == '\r' || b == ';' ? 0 : -1;
	case EXTENSION:
		if (b == '\r')
			c->state = SIZE_LF;
		else if (!is_text(b) || ++c->spent > EXTRA_MAX)
			return -1;
		return 0;
	case SIZE_LF:
		c->state = c->left == 0 ? TRAILER_START : DATA;
		c->digits = 0;
		return b == '\n' ? 0 : -1;
	case DATA_CR:
		c->state = DATA_LF;
		return b == '\r' ? 0 : -1;
	case DATA_LF:
		c->state = SIZE;
		return b == '\n' ? 0 : -1;
	case TRAILER_START:
		if (b == '\r') {
			c->state = END_LF;
			return 0;
		}
		c->state = TRAILER;
		return is_text(b) && b != ' ' && b != '\t' && ++c->spent <= EXTRA_MAX ? 0 : -1;
	case TRAILER:
		if (b == '\r')
			c->state = TRAILER_LF;
		else if (!is_text(b) || ++c->spent > EXTRA_MAX)
			return -1;
		return 0;
	case TRAILER_LF:
		c->state = TRAILER_START;
		return b == '\n' ? 0 : -1;
	case END_LF:
		c->state = END;
		return b == '\n' ? 0 : -1;
	case DATA:
	case END:
		break;
	}
	return -1;
}

int
http_chunk_next(struct http_chunk *c, const void *data, size_t len, size_t *used,
    const void **piece, size_t *piece_len)
{
	const unsigned char *p = data;
	size_t i = 0;

	*piece = data;
	*piece_len = 0;
	while (i < len && c->state != END) {
		if (c->state == DATA) {
			*piece = p + i;
			*piece_len = c->left < len - i ? (size_t)c->left : len - i;
			c->left -= *piece_len;
			if (c->left == 0)
				c->state = DATA_CR;
			i += *piece_len;
			break;
		}
		if (step(c, p[i++]) != 0)
			return -1;
	}
	*used = i;
	return c->state == END;
}
