/*
 * Where uploads and downloads may go. Clients choose the URLs, so an address is judged after the
 * name was resolved, at the moment of connecting: only public unicast addresses pass, and what
 * STEPD_EGRESS_ALLOW lists. However the address was written (decimal, octal, mapped into IPv6,
 * behind a DNS name), it is the socket address that counts.
 */
#ifndef SUPERVISOR_TRANSFER_EGRESS_H
#define SUPERVISOR_TRANSFER_EGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct egress_rule;

struct egress {
	struct egress_rule *rules;
	size_t count;
};

/* Reads a comma-separated list of host names, addresses and networks in CIDR form; NULL or "" lists
   nothing. 0, -ENOMEM, or -EINVAL with the bad entry copied to bad (may be NULL). */
int egress_init(struct egress *e, const char *list, char *bad, size_t bad_size);
void egress_fini(struct egress *e);

/* May a connection go to this address? host: the URL's host as written, brackets or not; a rule
   that names it allows every address it resolves to. */
bool egress_allows(const struct egress *e, const char *host, const struct sockaddr *address);

#endif
