/* Socket addresses as text: "127.0.0.1:8321", "[::1]:0", ":8321" (every address), "localhost:80".
 */
#ifndef SUPERVISOR_HTTP_ADDRESS_H
#define SUPERVISOR_HTTP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Resolves text to its first address, for listening. port 0 leaves the one in text. 0, -EINVAL (its
   form), -ENOENT (its name), -EAFNOSUPPORT. */
int address_resolve(const char *text, uint16_t port, struct sockaddr_storage *out, socklen_t *len);
/* A socket that listens there, not blocking, closed on exec; or what address_resolve says, or
 * -errno.
 */
int address_listen(const char *text, uint16_t port);
/* 127.0.0.0/8 or ::1? */
bool address_is_loopback(const struct sockaddr *address);
/* The host alone, IPv4 written into IPv6 (::ffff:a.b.c.d); other families: all zeros. */
void address_host(const struct sockaddr *address, struct in6_addr *out);
/* Writes "host:port", cut at size. */
void address_text(const struct sockaddr *address, char *out, size_t size);

#endif
