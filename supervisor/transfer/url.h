/*
 * https URLs of artifacts, read by the WHATWG rules as far as real clients use them and refused
 * where a browser would repair: credentials, spaces or escapes in the host, other numbers than
 * dotted ones, names beyond ASCII (write them as xn--), backslashes, missing slashes. What passes
 * is normalized: scheme and host in lower case, no default port, no fragment, no dot segments, a
 * path of at least "/"; percent escapes and the order of the query stay as they are.
 */
#ifndef SUPERVISOR_TRANSFER_URL_H
#define SUPERVISOR_TRANSFER_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	URL_GIVEN_MAX = 4096, /* bytes as given; URLs signed with temporary credentials are long */
	URL_MAX = 8192,	      /* bytes with their NUL when normalized */
	URL_HOST_MAX = 254,   /* a DNS name's longest, with its NUL */
};

struct url {
	char text[URL_MAX];	 /* "" = no URL */
	char host[URL_HOST_MAX]; /* without the brackets of IPv6 */
	uint16_t port;
	bool is_ipv6, is_ipv4;
	/* http, and of the form of stepd's own objects: good only if objects_resolve says so. */
	bool plain;
};

enum url_fault {
	URL_OK,
	URL_TOO_LONG,
	URL_PARSING, /* no URL at all, no host, a bad port */
	URL_SCHEME,  /* neither http nor https */
	URL_NOT_HTTPS,
};

/* Reads len bytes of text. On a fault *out is not to be used. */
enum url_fault url_parse(struct url *out, const char *text, size_t len);

#endif
