#include "supervisor/http/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

/* Cuts text into host and port; host is "" for every address. */
static int
split(const char *text, char host[256], char port[6])
{
	const char *colon = strrchr(text, ':'), *end = colon;
	size_t digits;

	if (colon == NULL)
		return -EINVAL;
	digits = strspn(colon + 1, "0123456789");
	if (digits == 0 || digits > 5 || colon[1 + digits] != '\0' || atoi(colon + 1) > 65535)
		return -EINVAL;
	memcpy(port, colon + 1, digits + 1);
	if (*text == '[') {
		if (colon == text || colon[-1] != ']')
			return -EINVAL;
		text++;
		end--;
	} else if (memchr(text, ':', (size_t)(colon - text)) != NULL) {
		return -EINVAL;
	}
	if (end < text || end - text >= 256)
		return -EINVAL;
	memcpy(host, text, (size_t)(end - text));
	host[end - text] = '\0';
	return 0;
}

int
address_resolve(const char *text, uint16_t port, struct sockaddr_storage *out, socklen_t *len)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
	char host[256], service[6];

	if (split(text, host, service) != 0)
		return -EINVAL;
	if (port != 0)
		snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(*host != '\0' ? host : NULL, service, &hints, &list) != 0)
		return -ENOENT;
	*len = list->ai_addrlen;
	memset(out, 0, sizeof(*out));
	memcpy(out, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return out->ss_family == AF_INET || out->ss_family == AF_INET6 ? 0 : -EAFNOSUPPORT;
}

int
address_listen(const char *text, uint16_t port)
{
	struct sockaddr_storage address;
	socklen_t len;
	int fd, one = 1, rc = address_resolve(text, port, &address, &len);

	if (rc != 0)
		return rc;
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

bool
address_is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;

		return ntohl(in->sin_addr.s_addr) >> 24 == 127;
	}
	if (address->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;

		return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) != 0;
	}
	return false;
}

void
address_host(const struct sockaddr *address, struct in6_addr *out)
{
	memset(out, 0, sizeof(*out));
	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;

		out->s6_addr[10] = out->s6_addr[11] = 0xff;
		memcpy(out->s6_addr + 12, &in->sin_addr, 4);
	} else if (address->sa_family == AF_INET6) {
		*out = ((const struct sockaddr_in6 *)address)->sin6_addr;
	}
}

void
address_text(const struct sockaddr *address, char *out, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (address->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(out, size, "%s:%u", host, ntohs(in->sin_port));
	} else if (address->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(out, size, "[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		snprintf(out, size, "?");
	}
}
