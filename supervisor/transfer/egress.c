#include "supervisor/transfer/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HOST_MAX = 256 };

struct egress_rule {
	int family; /* AF_INET, AF_INET6, or AF_UNSPEC for a host name */
	unsigned bits;
	uint8_t address[16];
	char host[HOST_MAX];
};

struct network {
	const char *address;
	unsigned bits;
};

/* What the registries of special-purpose addresses (RFC 6890 and its updates) keep from the public
   internet, and multicast. */
static const struct network closed4[] = {
    {"0.0.0.0", 8},	  /* this network */
    {"10.0.0.0", 8},	  /* private */
    {"100.64.0.0", 10},	  /* carrier-grade NAT */
    {"127.0.0.0", 8},	  /* loopback */
    {"169.254.0.0", 16},  /* link-local, metadata services */
    {"172.16.0.0", 12},	  /* private */
    {"192.0.0.0", 24},	  /* protocol assignments */
    {"192.0.2.0", 24},	  /* documentation */
    {"192.88.99.0", 24},  /* 6to4 relays */
    {"192.168.0.0", 16},  /* private */
    {"198.18.0.0", 15},	  /* benchmarking; fake addresses of proxies */
    {"198.51.100.0", 24}, /* documentation */
    {"203.0.113.0", 24},  /* documentation */
    {"224.0.0.0", 4},	  /* multicast */
    {"240.0.0.0", 4},	  /* reserved, broadcast */
};

/* Closed parts of 2000::/3; everything outside it is closed but for the forms that carry an IPv4
   address. */
static const struct network closed6[] = {
    {"2001::", 23},	/* protocol assignments: Teredo, ORCHID, ... */
    {"2001:db8::", 32}, /* documentation */
    {"3fff::", 20},	/* documentation */
};

static bool
prefix_matches(const uint8_t *address, const uint8_t *network, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(address, network, whole) != 0)
		return false;
	return rest == 0 || ((address[whole] ^ network[whole]) & (uint8_t)(0xff00u >> rest)) == 0;
}

static bool
in_network(int family, const uint8_t *address, const char *network, unsigned bits)
{
	uint8_t bytes[16];

	return inet_pton(family, network, bytes) == 1 && prefix_matches(address, bytes, bits);
}

static bool
is_public4(const uint8_t *address)
{
	for (size_t i = 0; i < sizeof(closed4) / sizeof(*closed4); i++) {
		if (in_network(AF_INET, address, closed4[i].address, closed4[i].bits))
			return false;
	}
	return true;
}

/* The IPv4 address inside a mapped, NAT64 or 6to4 address, or NULL. */
static const uint8_t *
embedded4(const uint8_t *address)
{
	if (in_network(AF_INET6, address, "::ffff:0:0", 96) ||
	    in_network(AF_INET6, address, "64:ff9b::", 96))
		return address + 12;
	if (in_network(AF_INET6, address, "2002::", 16))
		return address + 2;
	return NULL;
}

static bool
is_public6(const uint8_t *address)
{
	const uint8_t *inner = embedded4(address);

	if (inner != NULL)
		return is_public4(inner);
	if (!in_network(AF_INET6, address, "2000::", 3))
		return false;
	for (size_t i = 0; i < sizeof(closed6) / sizeof(*closed6); i++) {
		if (in_network(AF_INET6, address, closed6[i].address, closed6[i].bits))
			return false;
	}
	return true;
}

/* One entry, NUL-terminated. 0 or -EINVAL. */
static int
rule_parse(struct egress_rule *rule, char *entry)
{
	char *slash = strchr(entry, '/'), *end;
	size_t len = strlen(entry);
	unsigned long bits;

	memset(rule, 0, sizeof(*rule));
	if (slash != NULL)
		*slash = '\0';
	if (entry[0] == '[' && len > 1 && entry[len - 1] == ']') {
		entry[len - 1] = '\0';
		entry++;
	}
	if (inet_pton(AF_INET, entry, rule->address) == 1) {
		rule->family = AF_INET;
		rule->bits = 32;
	} else if (inet_pton(AF_INET6, entry, rule->address) == 1) {
		rule->family = AF_INET6;
		rule->bits = 128;
	} else if (slash != NULL || len == 0 || len >= HOST_MAX ||
		   strspn(entry,
		       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") !=
		       len) {
		return -EINVAL;
	} else {
		rule->family = AF_UNSPEC;
		memcpy(rule->host, entry, len + 1);
		return 0;
	}
	if (slash == NULL)
		return 0;
	errno = 0;
	bits = strtoul(slash + 1, &end, 10);
	if (slash[1] < '0' || slash[1] > '9' || *end != '\0' || errno != 0 || bits > rule->bits)
		return -EINVAL;
	rule->bits = (unsigned)bits;
	return 0;
}

int
egress_init(struct egress *e, const char *list, char *bad, size_t bad_size)
{
	static const char separators[] = ", \t";
	size_t room = 1;
	char *copy, *save = NULL;
	int error = 0;

	memset(e, 0, sizeof(*e));
	if (bad != NULL && bad_size > 0)
		bad[0] = '\0';
	if (list == NULL || list[0] == '\0')
		return 0;
	for (const char *p = list; *p != '\0'; p++)
		room += strchr(separators, *p) != NULL;
	copy = strdup(list);
	e->rules = calloc(room, sizeof(*e->rules));
	if (copy == NULL || e->rules == NULL)
		error = -ENOMEM;
	for (char *entry = error == 0 ? strtok_r(copy, separators, &save) : NULL; entry != NULL;
	     entry = strtok_r(NULL, separators, &save)) {
		if (bad != NULL)
			snprintf(bad, bad_size, "%s", entry);
		error = rule_parse(&e->rules[e->count], entry);
		if (error != 0)
			break;
		e->count++;
	}
	free(copy);
	if (error != 0)
		egress_fini(e);
	else if (bad != NULL && bad_size > 0)
		bad[0] = '\0';
	return error;
}

void
egress_fini(struct egress *e)
{
	free(e->rules);
	e->rules = NULL;
	e->count = 0;
}

static bool
host_is(const char *host, const char *name)
{
	size_t len = strlen(host);

	if (len > 1 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	}
	if (len > 0 && host[len - 1] == '.')
		len--;
	return strlen(name) == len && strncasecmp(host, name, len) == 0;
}

static bool
rule_matches(const struct egress_rule *rule, const char *host, int family, const uint8_t *bytes)
{
	const uint8_t *inner = family == AF_INET6 ? embedded4(bytes) : NULL;

	if (rule->family == AF_UNSPEC)
		return host != NULL && host_is(host, rule->host);
	if (rule->family == AF_INET && inner != NULL)
		return prefix_matches(inner, rule->address, rule->bits);
	return rule->family == family && prefix_matches(bytes, rule->address, rule->bits);
}

bool
egress_allows(const struct egress *e, const char *host, const struct sockaddr *address)
{
	uint8_t bytes[16] = {0};

	/* Copied, as callers hold addresses in buffers of any alignment. */
	if (address->sa_family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, address, sizeof(in));
		memcpy(bytes, &in.sin_addr, 4);
	} else if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;
		memcpy(&in6, address, sizeof(in6));
		memcpy(bytes, &in6.sin6_addr, 16);
	} else {
		return false;
	}
	for (size_t i = 0; i < e->count; i++) {
		if (rule_matches(&e->rules[i], host, address->sa_family, bytes))
			return true;
	}
	return address->sa_family == AF_INET ? is_public4(bytes) : is_public6(bytes);
}
