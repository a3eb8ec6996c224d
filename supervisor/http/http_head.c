#include "supervisor/http/http_head.h"

#include <ctype.h>
#include <http_parser.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* RFC 9110: tchar. */
static bool
is_token(unsigned char c)
{
	return isalnum(c) != 0 || (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool
is_token_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!is_token((unsigned char)text[i]))
			return false;
	return len > 0;
}

/* Control characters have no place in a head, and line ends come as CR LF only. */
int
http_scan(struct http_scan *scan, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++) {
		if (scan->seen++ == HTTP_HEADER_BYTES)
			return -431;
		if (scan->cr) {
			if (p[i] != '\n')
				return -400;
			if (scan->line == 0 && scan->past_line)
				return 1;
			scan->cr = false;
			scan->past_line = true;
			scan->line = 0;
			continue;
		}
		if (p[i] == '\r') {
			scan->cr = true;
			continue;
		}
		if ((p[i] < ' ' && p[i] != '\t') || p[i] == 0x7f)
			return -400;
		/* a line that begins with white space would continue the one before: obs-fold */
		if (scan->line == 0 && (p[i] == ' ' || p[i] == '\t'))
			return -400;
		if (++scan->line > HTTP_TARGET_BYTES && !scan->past_line)
			return -414;
	}
	return 0;
}

/* What http_parser found at the end of the head. */
struct found {
	const struct http_parser *parser;
	bool complete, keep_alive, chunked, has_length;
	uint64_t length;
};

static int
on_headers_complete(struct http_parser *parser)
{
	struct found *found = parser->data;

	found->complete = true;
	found->keep_alive = http_should_keep_alive(parser) != 0;
	found->chunked = (parser->flags & F_CHUNKED) != 0;
	found->has_length = (parser->flags & F_CONTENTLENGTH) != 0;
	found->length = found->has_length ? parser->content_length : 0;
	return 2; /* the body is none of its business */
}

/* The second reader of the same bytes: what it refuses is refused. */
static unsigned
second_opinion(struct http_head *h, const char *data, size_t len)
{
	struct http_parser parser;
	struct http_parser_settings settings;
	struct found found = {.parser = &parser};

	http_parser_init(&parser, HTTP_REQUEST);
	http_parser_settings_init(&settings);
	settings.on_headers_complete = on_headers_complete;
	parser.data = &found;
	http_parser_execute(&parser, &settings, data, len);
	switch (HTTP_PARSER_ERRNO(&parser)) {
	case HPE_OK:
		break;
	case HPE_INVALID_METHOD:
		return 501;
	case HPE_HEADER_OVERFLOW:
		return 431;
	default:
		return 400;
	}
	if (!found.complete)
		return 400;
	h->keep_alive = found.keep_alive;
	h->chunked = found.chunked;
	h->has_length = found.has_length;
	h->length = found.length;
	return 0;
}

/* method SP target SP HTTP/1.x, one space each. Cuts the line into strings. */
static unsigned
read_request_line(struct http_head *h, char *line, size_t len)
{
	char *target = memchr(line, ' ', len), *version;

	if (target == NULL || !is_token_text(line, (size_t)(target - line)))
		return 400;
	*target++ = '\0';
	version = strchr(target, ' ');
	if (version == NULL || version == target)
		return 400;
	*version++ = '\0';
	if (strncmp(version, "HTTP/", 5) != 0 || !isdigit((unsigned char)version[5]) ||
	    version[6] != '.' || !isdigit((unsigned char)version[7]) || version[8] != '\0')
		return 400;
	if (version[5] != '1' || version[7] > '1')
		return 505;
	h->minor = (unsigned)(version[7] - '0');
	h->method = line;
	for (const char *p = target; *p != '\0'; p++)
		if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || *p == '#')
			return 400;
	/* absolute form: what comes before the path is the client's idea of our name */
	if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
		target = strchr(target, ':') + 3;
		target += strcspn(target, "/?");
		if (*target == '\0')
			target = (char *)"/";
	}
	if (*target != '/' && strcmp(target, "*") != 0)
		return 400;
	h->path = target;
	target = strchr(target, '?');
	if (target != NULL) {
		*target = '\0';
		h->query = target + 1;
	}
	return 0;
}

static unsigned
read_field(struct http_head *h, char *line, size_t len)
{
	char *colon = memchr(line, ':', len), *value, *end = line + len;

	/* no space before the colon: another reader would see another name */
	if (colon == NULL || !is_token_text(line, (size_t)(colon - line)))
		return 400;
	if (h->count == HTTP_HEADER_COUNT)
		return 431;
	*colon = '\0';
	value = colon + 1;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	h->fields[h->count++] = (struct http_field){line, value};
	return 0;
}

static bool
is_digits(const char *text)
{
	return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Fields that say where the message ends or whom it is for must say it once and plainly. */
static unsigned
check_framing(struct http_head *h)
{
	static const char *const once[] = {
	    "host", "content-length", "transfer-encoding", "content-type", "expect"};
	/* RFC 3986, reg-name and port */
	static const char in_host[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-._~%!$&'()*+,;=:[]";
	const char *host = http_head_get(h, "host");
	const char *encoding = http_head_get(h, "transfer-encoding");
	const char *length = http_head_get(h, "content-length");
	const char *expect = http_head_get(h, "expect");

	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
		if (http_head_count(h, once[i]) > 1)
			return 400;
	if ((h->minor >= 1 && host == NULL) ||
	    (host != NULL && host[strspn(host, in_host)] != '\0'))
		return 400;
	if (length != NULL && (encoding != NULL || !is_digits(length) || !h->has_length))
		return 400;
	if (encoding != NULL) {
		if (h->minor == 0)
			return 400;
		if (strcasecmp(encoding, "chunked") != 0 || !h->chunked)
			return 501;
	}
	if (expect != NULL && h->minor >= 1) {
		if (strcasecmp(expect, "100-continue") != 0)
			return 417;
		h->continue_first = true;
	}
	return 0;
}

unsigned
http_head_parse(struct http_head *h, const void *data, size_t len)
{
	char *line, *end;
	unsigned status;

	memset(h, 0, sizeof(*h));
	if (len < 4)
		return 400;
	h->memory = malloc(len + 1);
	if (h->memory == NULL)
		return 500;
	memcpy(h->memory, data, len);
	h->memory[len] = '\0';
	if (strlen(h->memory) != len)
		return 400;
	line = h->memory;
	end = strstr(line, "\r\n");
	if (end == NULL)
		return 400;
	*end = '\0';
	status = read_request_line(h, line, (size_t)(end - line));
	if (status == 0)
		status = second_opinion(h, data, len);
	while (status == 0) {
		line = end + 2;
		end = strstr(line, "\r\n");
		if (end == NULL)
			status = 400;
		else if (end == line)
			break;
		else {
			*end = '\0';
			status = read_field(h, line, (size_t)(end - line));
		}
	}
	return status != 0 ? status : check_framing(h);
}

void
http_head_fini(struct http_head *h)
{
	free(h->memory);
	memset(h, 0, sizeof(*h));
}

const char *
http_head_get(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->count; i++)
		if (strcasecmp(h->fields[i].name, name) == 0)
			return h->fields[i].value;
	return NULL;
}

size_t
http_head_count(const struct http_head *h, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < h->count; i++)
		n += strcasecmp(h->fields[i].name, name) == 0;
	return n;
}
