#include "supervisor/transfer/url.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A view that is eaten from its start. */
struct span {
	const char *at, *end;
};

static bool
is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static size_t
span_len(struct span s)
{
	return (size_t)(s.end - s.at);
}

/* Takes "scheme:" off. */
static bool
take_scheme(struct span *s, struct span *scheme)
{
	const char *c = s->at;

	if (c == s->end || !is_alpha(*c))
		return false;
	while (c < s->end && (is_alpha(*c) || is_digit(*c) || *c == '+' || *c == '-' || *c == '.'))
		c++;
	if (c == s->end || *c != ':')
		return false;
	*scheme = (struct span){s->at, c};
	s->at = c + 1;
	return true;
}

static bool
span_is(struct span s, const char *word)
{
	return span_len(s) == strlen(word) && strncasecmp(s.at, word, span_len(s)) == 0;
}

/* ":" and digits, or nothing; "" and ":" are the default. */
static bool
read_port(struct span s, unsigned fallback, uint16_t *out)
{
	unsigned long port = 0;

	*out = (uint16_t)fallback;
	if (s.at == s.end)
		return true;
	if (*s.at++ != ':')
		return false;
	if (s.at == s.end)
		return true;
	for (; s.at < s.end; s.at++) {
		if (!is_digit(*s.at))
			return false;
		port = port * 10 + (unsigned long)(*s.at - '0');
		if (port > UINT16_MAX)
			return false;
	}
	*out = (uint16_t)port;
	return true;
}

/* Does the last label look like a number? Then the whole host has to be an IPv4 address. */
static bool
ends_in_number(const char *host)
{
	size_t len = strlen(host);
	const char *label;

	if (len > 0 && host[len - 1] == '.')
		len--;
	label = host + len;
	while (label > host && label[-1] != '.')
		label--;
	len -= (size_t)(label - host);
	if (len == 0)
		return false;
	if (len >= 2 && label[0] == '0' && (label[1] | 0x20) == 'x')
		return strspn(label + 2, "0123456789abcdefABCDEF") >= len - 2;
	return strspn(label, "0123456789") >= len;
}

/* The characters of a name: letters, digits, hyphen, underscore and what else a resolver is asked
   for. */
static bool
is_name(const char *host)
{
	for (; *host != '\0'; host++)
		if (!is_alpha(*host) && !is_digit(*host) &&
		    strchr("-._~!$&'()*+,;=", *host) == NULL)
			return false;
	return true;
}

static bool
read_host(struct url *out, struct span s)
{
	unsigned char address[16];

	out->is_ipv6 = out->is_ipv4 = false;
	if (span_len(s) >= 2 && *s.at == '[' && s.end[-1] == ']') {
		out->is_ipv6 = true;
		s.at++;
		s.end--;
	}
	if (span_len(s) == 0 || span_len(s) >= sizeof(out->host))
		return false;
	for (size_t i = 0; i <= span_len(s); i++)
		out->host[i] = '\0';
	for (size_t i = 0; i < span_len(s); i++)
		out->host[i] = (char)(s.at[i] >= 'A' && s.at[i] <= 'Z' ? s.at[i] | 0x20 : s.at[i]);
	if (strlen(out->host) != span_len(s))
		return false;
	if (out->is_ipv6)
		return inet_pton(AF_INET6, out->host, address) == 1;
	if (ends_in_number(out->host)) {
		out->is_ipv4 = inet_pton(AF_INET, out->host, address) == 1;
		return out->is_ipv4;
	}
	return is_name(out->host);
}

static struct span
take_host(struct span authority, struct span *port)
{
	struct span host = {authority.at, authority.at};

	if (host.end < authority.end && *host.end == '[')
		while (host.end < authority.end && *host.end != ']')
			host.end++;
	while (host.end < authority.end && *host.end != ':')
		host.end++;
	*port = (struct span){host.end, authority.end};
	return host;
}

/* Takes "//" and all up to the path off. */
static bool
take_slashes(struct span *s, struct span *authority)
{
	if (span_len(*s) < 2 || s->at[0] != '/' || s->at[1] != '/')
		return false;
	authority->at = s->at += 2;
	while (s->at < s->end && strchr("/?#", *s->at) == NULL)
		s->at++;
	authority->end = s->at;
	return true;
}

static bool
take_authority(struct url *out, struct span *s, unsigned default_port)
{
	struct span authority, host, port;

	if (!take_slashes(s, &authority))
		return false;
	host = take_host(authority, &port);
	return read_host(out, host) && read_port(port, default_port, &out->port) && out->port != 0;
}

/* What is wrong first with a URL of another scheme: its host and port, or the scheme. */
static enum url_fault
other_scheme(struct span scheme, struct span s)
{
	struct span authority, port, host;
	bool file = span_is(scheme, "file");
	uint16_t number;

	if (!take_slashes(&s, &authority))
		return URL_SCHEME;
	for (const char *c = authority.at; c < authority.end; c++)
		if (*c == '@')
			authority.at = c + 1;
	host = take_host(authority, &port);
	if (port.at < port.end && (file || host.at == host.end || !read_port(port, 1, &number)))
		return URL_PARSING;
	if (host.at < host.end && *host.at == '[' && host.end[-1] != ']')
		return URL_PARSING;
	for (const char *c = host.at; c < host.end; c++)
		if (strchr(" <>\\^|", *c) != NULL)
			return URL_PARSING;
	return URL_SCHEME;
}

/* The normalized text as it grows. */
struct builder {
	char *text;
	size_t len;
	bool full;
};

static void
put(struct builder *b, char c)
{
	if (b->len + 1 < URL_MAX)
		b->text[b->len++] = c;
	else
		b->full = true;
}

/* Bytes that cannot stand in a request line, or not in this part of it, as their escapes. */
static void
put_escaped(struct builder *b, const char *at, const char *end, const char *also)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; at < end; at++) {
		unsigned char c = (unsigned char)*at;

		if (c > 0x20 && c < 0x7f && strchr(also, c) == NULL) {
			put(b, (char)c);
			continue;
		}
		put(b, '%');
		put(b, hex[c >> 4]);
		put(b, hex[c & 15]);
	}
}

/* 1 for ".", 2 for "..", also where a dot is written %2e; else 0. */
static int
dot_segment(struct span s)
{
	int dots = 0;

	while (s.at < s.end) {
		if (*s.at == '.')
			s.at++;
		else if (span_len(s) >= 3 && strncasecmp(s.at, "%2e", 3) == 0)
			s.at += 3;
		else
			return 0;
		dots++;
	}
	return dots <= 2 ? dots : 0;
}

static void
put_path(struct builder *b, struct span path)
{
	size_t root = b->len;

	while (path.at < path.end) {
		struct span segment = {path.at + 1, path.at + 1};
		int dots;

		while (segment.end < path.end && *segment.end != '/')
			segment.end++;
		path.at = segment.end;
		dots = dot_segment(segment);
		if (dots == 2)
			while (b->len > root && b->text[--b->len] != '/')
				;
		if (dots == 0) {
			put(b, '/');
			put_escaped(b, segment.at, segment.end, "\"<>`{}");
		} else if (path.at == path.end) {
			put(b, '/');
		}
	}
	if (b->len == root)
		put(b, '/');
}

static void
put_text(struct builder *b, const char *text)
{
	while (*text != '\0')
		put(b, *text++);
}

/* s is what follows the authority. */
static bool
normalize(struct url *out, struct span s)
{
	struct builder b = {.text = out->text};
	struct span path = {s.at, s.at};
	char port[8];

	put_text(&b, out->plain ? "http://" : "https://");
	put_text(&b, out->is_ipv6 ? "[" : "");
	put_text(&b, out->host);
	put_text(&b, out->is_ipv6 ? "]" : "");
	snprintf(port, sizeof(port), ":%u", out->port);
	put_text(&b, out->port == (out->plain ? 80 : 443) ? "" : port);
	while (path.end < s.end && *path.end != '?' && *path.end != '#')
		path.end++;
	put_path(&b, path);
	if (path.end < s.end && *path.end == '?') {
		const char *end = memchr(path.end, '#', (size_t)(s.end - path.end));

		put_escaped(&b, path.end, end == NULL ? s.end : end, "\"<>'");
	}
	out->text[b.len] = '\0';
	return !b.full;
}

static bool
is_object(struct span s)
{
	static const char objects[] = "/v1/objects/";

	return span_len(s) >= sizeof(objects) && memcmp(s.at, objects, sizeof(objects) - 1) == 0;
}

enum url_fault
url_parse(struct url *out, const char *text, size_t len)
{
	struct span s = {text, text + len}, scheme;
	bool https;

	if (len > URL_GIVEN_MAX)
		return URL_TOO_LONG;
	if (!take_scheme(&s, &scheme))
		return URL_PARSING;
	https = span_is(scheme, "https");
	if (!https && !span_is(scheme, "http"))
		return other_scheme(scheme, s);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return URL_PARSING;
	if (!take_authority(out, &s, https ? 443 : 80))
		return URL_PARSING;
	out->plain = !https;
	if (!https && !is_object(s))
		return URL_NOT_HTTPS;
	for (const char *c = s.at; c < s.end && *c != '?' && *c != '#'; c++)
		if (*c == '\\')
			return URL_PARSING;
	if (!normalize(out, s))
		return URL_TOO_LONG;
	/* Dot segments may have led elsewhere. */
	s.at = out->text + strlen("http://");
	s.at += strcspn(s.at, "/");
	s.end = s.at + strlen(s.at);
	return https || is_object(s) ? URL_OK : URL_NOT_HTTPS;
}
