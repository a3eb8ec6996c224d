#include "ipc/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json_doc.h"
#include "ipc/utf8.h"

/*
 * Why no tokenizer library: those that are small do not judge (commas, colons, numbers, escapes),
 * and judging around one is this parser. One pass builds nodes in document order; a container's
 * first child is the node after it. Strings are decoded in place in the document's copy of the
 * text (json_string.c).
 */

enum { MAX_NODES = 1 << 23 }; /* bounds the memory that a hostile text can take to 192 MiB */

struct parser {
	struct json_doc *doc;
	size_t at;
	struct json_error error;
	uint32_t open[JSON_MAX_DEPTH]; /* containers that are being filled */
	uint32_t last[JSON_MAX_DEPTH]; /* last child of each, 0 = none */
	size_t depth;
};

static int
fail(struct parser *p, enum json_fault fault, size_t byte, const char *what)
{
	return json_fail(&p->error, fault, byte, what);
}

static int
syntax(struct parser *p, size_t byte, const char *what)
{
	return fail(p, JSON_FAULT_SYNTAX, byte, what);
}

/* p->at stands on the opening quote. */
static int
parse_string(struct parser *p, uint32_t *offset, uint32_t *len)
{
	return json_decode_string(p->doc, &p->at, offset, len, &p->error);
}

static void
skip_space(struct parser *p)
{
	const char *text = p->doc->text;

	while (
	    text[p->at] == ' ' || text[p->at] == '\t' || text[p->at] == '\n' || text[p->at] == '\r')
		p->at++;
}

/* Appends a node and links it to its container. */
static int
add_node(struct parser *p, enum json_type type, uint32_t *index)
{
	struct json_doc *doc = p->doc;

	if (doc->count == doc->room) {
		uint32_t room = doc->room < 64 ? 64 : doc->room * 2;
		struct node *nodes;

		if (doc->count >= MAX_NODES)
			return fail(p, JSON_FAULT_SIZE, p->at, "Too many values");
		nodes = realloc(doc->nodes, room * sizeof(*nodes));
		if (nodes == NULL)
			return fail(p, JSON_FAULT_MEMORY, p->at, "Out of memory");
		doc->nodes = nodes;
		doc->room = room;
	}
	*index = doc->count++;
	doc->nodes[*index] = (struct node){.key_len = NO_KEY, .type = (uint8_t)type};
	if (p->depth > 0) {
		uint32_t *last = &p->last[p->depth - 1];

		if (*last != 0)
			doc->nodes[*last].next = *index;
		*last = *index;
		doc->nodes[p->open[p->depth - 1]].len++;
	}
	return 0;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Length of the number at s by the grammar of RFC 8259, section 6; 0 if there is none. */
static size_t
number_length(const char *s)
{
	size_t n = s[0] == '-', m;

	if (s[n] == '0')
		n++;
	else if (is_digit(s[n]))
		while (is_digit(s[n]))
			n++;
	else
		return 0;
	if (s[n] == '.' && is_digit(s[n + 1]))
		for (n++; is_digit(s[n]);)
			n++;
	if (s[n] == 'e' || s[n] == 'E') {
		m = n + 1;
		if (s[m] == '+' || s[m] == '-')
			m++;
		if (is_digit(s[m])) {
			while (is_digit(s[m]))
				m++;
			n = m;
		}
	}
	return n;
}

/* A number or a literal. */
static int
parse_atom(struct parser *p)
{
	static const struct {
		const char *text;
		uint8_t type;
		bool truth;
	} literals[] = {{"null", JSON_NULL, false}, {"true", JSON_BOOL, true},
	    {"false", JSON_BOOL, false}, {"NaN", JSON_NUMBER, false},
	    {"Infinity", JSON_NUMBER, false}, {"-Infinity", JSON_NUMBER, false}};
	const char *s = p->doc->text + p->at;
	enum json_type type = JSON_NUMBER;
	bool truth = false;
	size_t len = number_length(s);
	uint32_t index;
	int rc;

	for (size_t i = 0; len == 0 && i < sizeof(literals) / sizeof(*literals); i++) {
		if (strncmp(s, literals[i].text, strlen(literals[i].text)) != 0)
			continue;
		len = strlen(literals[i].text);
		type = literals[i].type;
		truth = literals[i].truth;
		if (type == JSON_NUMBER)
			p->doc->flags |= JSON_HAS_NONFINITE;
	}
	if (len == 0)
		return syntax(p, p->at, "Expecting value");
	rc = add_node(p, type, &index);
	if (rc != 0)
		return rc;
	p->doc->nodes[index].text = (uint32_t)p->at;
	p->doc->nodes[index].len = (uint32_t)len;
	p->doc->nodes[index].truth = truth;
	p->at += len;
	return 0;
}

/* A value's start: a whole scalar, or the opening of a container, which becomes the open one. */
static int
parse_value(struct parser *p)
{
	char c = p->doc->text[p->at];
	uint32_t index, offset, len;
	int rc;

	if (c == '"') {
		rc = parse_string(p, &offset, &len);
		if (rc == 0)
			rc = add_node(p, JSON_STRING, &index);
		if (rc == 0) {
			p->doc->nodes[index].text = offset;
			p->doc->nodes[index].len = len;
		}
		return rc;
	}
	if (c != '{' && c != '[')
		return parse_atom(p);
	if (p->depth == JSON_MAX_DEPTH)
		return fail(p, JSON_FAULT_DEPTH, p->at, "Too many nested values");
	rc = add_node(p, c == '{' ? JSON_OBJECT : JSON_ARRAY, &index);
	if (rc != 0)
		return rc;
	p->open[p->depth] = index;
	p->last[p->depth++] = 0;
	p->at++;
	return 0;
}

/* In an open object, p->at on the key's quote: reads `"key" : value`. */
static int
parse_member(struct parser *p)
{
	uint32_t key, key_len, index;
	int rc;

	if (p->doc->text[p->at] != '"')
		return syntax(p, p->at, "Expecting property name enclosed in double quotes");
	rc = parse_string(p, &key, &key_len);
	if (rc != 0)
		return rc;
	skip_space(p);
	if (p->doc->text[p->at] != ':')
		return syntax(p, p->at, "Expecting ':' delimiter");
	p->at++;
	skip_space(p);
	index = p->doc->count;
	rc = parse_value(p);
	if (rc != 0)
		return rc;
	p->doc->nodes[index].key = key;
	p->doc->nodes[index].key_len = key_len;
	return 0;
}

/* Fills the innermost open container by one child, or closes it. */
static int
parse_inside(struct parser *p)
{
	uint32_t container = p->open[p->depth - 1];
	bool object = p->doc->nodes[container].type == JSON_OBJECT;
	char close = object ? '}' : ']';
	bool first = p->last[p->depth - 1] == 0;

	skip_space(p);
	if (p->doc->text[p->at] == close) {
		p->at++;
		p->depth--;
		return 0;
	}
	if (!first) {
		if (p->doc->text[p->at] != ',')
			return syntax(p, p->at, "Expecting ',' delimiter");
		p->at++;
		skip_space(p);
	}
	return object ? parse_member(p) : parse_value(p);
}

static size_t
mark_length(const struct json_doc *doc)
{
	return doc->len >= 3 && memcmp(doc->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static int
parse_document(struct parser *p)
{
	int rc;

	p->at = mark_length(p->doc);
	skip_space(p);
	rc = parse_value(p);
	while (rc == 0 && p->depth > 0)
		rc = parse_inside(p);
	if (rc != 0)
		return rc;
	skip_space(p);
	if (p->at != p->doc->len)
		return syntax(p, p->at, "Extra data");
	/* What follows a number is a delimiter that nobody needs any more. */
	for (uint32_t i = 0; i < p->doc->count; i++)
		if (p->doc->nodes[i].type == JSON_NUMBER)
			p->doc->text[p->doc->nodes[i].text + p->doc->nodes[i].len] = '\0';
	return 0;
}

int
json_parse(struct json_doc **out, const void *text, size_t len, struct json_error *err)
{
	struct parser p = {0};
	struct json_doc *doc;
	size_t good;
	int rc;

	*out = NULL;
	if (err != NULL)
		*err = (struct json_error){.fault = JSON_FAULT_MEMORY, .what = "Out of memory"};
	if (len >= UINT32_MAX)
		return -ENOMEM;
	doc = calloc(1, sizeof(*doc));
	if (doc == NULL)
		return -ENOMEM;
	doc->text = malloc(len + 1);
	if (doc->text == NULL) {
		free(doc);
		return -ENOMEM;
	}
	if (len > 0)
		memcpy(doc->text, text, len);
	doc->text[len] = '\0';
	doc->len = len;
	p.doc = doc;
	good = utf8_valid_prefix(text, len);
	rc = good == len ? parse_document(&p) : fail(&p, JSON_FAULT_UTF8, good, "Invalid UTF-8");
	if (rc == 0) {
		*out = doc;
		return 0;
	}
	if (err != NULL) {
		*err = p.error;
		err->offset = utf8_count(text, p.error.byte);
		if (mark_length(doc) > 0 && err->offset > 0)
			err->offset--; /* the mark is no character of the text */
	}
	json_free(doc);
	return p.error.fault == JSON_FAULT_MEMORY || p.error.fault == JSON_FAULT_SIZE ? -ENOMEM
										      : rc;
}
