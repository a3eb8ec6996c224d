/* Which addresses uploads and downloads may reach. Ranges: the IANA special-purpose registries. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>

#include "supervisor/transfer/egress.h"
#include "tests/unit/test.h"

static bool
allows(const struct egress *e, const char *host, const char *address)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
	bool yes;

	if (getaddrinfo(address, "443", &hints, &found) != 0) {
		printf("%s is no address\n", address);
		return false;
	}
	yes = egress_allows(e, host, found->ai_addr);
	freeaddrinfo(found);
	return yes;
}

TEST(public_addresses_pass)
{
	static const char *const good[] = {"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0",
	    "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255",
	    "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255",
	    "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
	    "2606:4700:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "::ffff:8.8.8.8",
	    "64:ff9b::8.8.8.8", "2002:0808:0808::1"};
	struct egress e;

	CHECK(egress_init(&e, NULL, NULL, 0) == 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		CHECK_MSG(allows(&e, "h", good[i]), "%s", good[i]);
	egress_fini(&e);
}

TEST(everything_else_is_refused)
{
	/* Also as getaddrinfo takes them: decimal, octal, hexadecimal, short. */
	static const char *const bad[] = {"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255",
	    "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254", "169.254.169.254",
	    "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1",
	    "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.9", "224.0.0.1",
	    "239.255.255.255", "240.0.0.1", "255.255.255.255", "2130706433", "0x7f000001", "0x7f.1",
	    "017700000001", "127.1", "0", "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
	    "::ffff:7f00:1", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a00:1",
	    "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:10::1", "2001:db8::1",
	    "2002:7f00:1::1", "2002:c0a8:101::1", "3fff::1", "fc00::1", "fdff::1", "fe80::1",
	    "febf::1", "fec0::1", "ff02::1", "4000::1", "5f00::1"};
	struct egress e;

	CHECK(egress_init(&e, "", NULL, 0) == 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_MSG(!allows(&e, "h", bad[i]), "%s", bad[i]);
	egress_fini(&e);
}

TEST(other_families_are_refused)
{
	struct sockaddr_storage unix_address = {.ss_family = AF_UNIX};
	struct egress e;

	CHECK(egress_init(&e, "0.0.0.0/0,::/0", NULL, 0) == 0);
	CHECK(!egress_allows(&e, "h", (struct sockaddr *)&unix_address));
	egress_fini(&e);
}

TEST(a_list_opens_hosts_and_networks)
{
	struct egress e;

	CHECK(egress_init(&e, " minio.lan, 10.1.0.0/16,192.168.7.9 ,fd00:1::/32,[::1]", NULL, 0) ==
	      0);
	CHECK(allows(&e, "minio.lan", "172.16.5.5"));
	CHECK(allows(&e, "MINIO.lan.", "127.0.0.1"));
	CHECK(!allows(&e, "xminio.lan", "172.16.5.5"));
	CHECK(!allows(&e, "minio.lan.evil.example", "172.16.5.5"));
	CHECK(allows(&e, "h", "10.1.255.1"));
	CHECK(allows(&e, "h", "::ffff:10.1.2.3"));
	CHECK(!allows(&e, "h", "10.2.0.1"));
	CHECK(allows(&e, "h", "192.168.7.9"));
	CHECK(!allows(&e, "h", "192.168.7.8"));
	CHECK(allows(&e, "h", "fd00:1:ffff::5"));
	CHECK(!allows(&e, "h", "fd00:2::5"));
	CHECK(allows(&e, "[::1]", "::1"));
	CHECK(!allows(&e, "h", "127.0.0.1"));
	egress_fini(&e);
}

TEST(prefixes_of_odd_length)
{
	struct egress e;

	CHECK(egress_init(&e, "10.0.0.0/9,192.168.0.128/25", NULL, 0) == 0);
	CHECK(allows(&e, "h", "10.127.255.255"));
	CHECK(!allows(&e, "h", "10.128.0.0"));
	CHECK(allows(&e, "h", "192.168.0.129"));
	CHECK(!allows(&e, "h", "192.168.0.127"));
	egress_fini(&e);
}

TEST(a_bad_entry_is_named)
{
	static const char *const bad[] = {"10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/x",
	    "a b/8", "host/8", "ho$t", "https://host", "host:443"};
	struct egress e;
	char name[64];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CHECK_MSG(egress_init(&e, bad[i], name, sizeof(name)) == -EINVAL, "%s", bad[i]);
		CHECK(e.rules == NULL);
		egress_fini(&e);
	}
	CHECK(egress_init(&e, "ok.example,10.0.0.0/99", name, sizeof(name)) == -EINVAL);
	CHECK_STR(name, "10.0.0.0/99");
}

TEST_MAIN(TEST_CASE(public_addresses_pass), TEST_CASE(everything_else_is_refused),
    TEST_CASE(other_families_are_refused), TEST_CASE(a_list_opens_hosts_and_networks),
    TEST_CASE(prefixes_of_odd_length), TEST_CASE(a_bad_entry_is_named))
