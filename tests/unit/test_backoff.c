/* Wrong tokens: how long their answers wait, and what the table of addresses holds. */
#include <arpa/inet.h>
#include <sodium.h>

#include "supervisor/http/backoff.h"
#include "tests/unit/test.h"

static bool news;

static unsigned
wrong(struct backoff *b, const char *address, uint64_t now_ms)
{
	struct in6_addr in6;

	CHECK_MSG(inet_pton(AF_INET6, address, &in6) == 1, "%s", address);
	return backoff_wrong(b, &in6, now_ms, &news);
}

/* Until the next one has to wait. */
static void
use_up(struct backoff *b, const char *address, uint64_t now_ms)
{
	for (int i = 0; i < BACKOFF_FREE; i++)
		CHECK_MSG(wrong(b, address, now_ms) == 0 && !news, "%s, %d", address, i);
}

TEST(waits_double_and_end)
{
	static const unsigned want[] = {50, 100, 200, 400, 800, 1600, 3200, 3200, 3200};
	struct backoff *b = backoff_new();

	use_up(b, "::ffff:1.2.3.4", 5);
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		unsigned got = wrong(b, "::ffff:1.2.3.4", 6);

		CHECK_MSG(got == want[i], "%zu: %u", i, got);
		CHECK(news == (i == 0));
	}
	CHECK(wrong(b, "::ffff:1.2.3.5", 6) == 0);
	backoff_free(b);
}

TEST(one_is_forgotten_every_ten_seconds)
{
	struct backoff *b = backoff_new();

	use_up(b, "::ffff:1.2.3.4", 1000);
	CHECK(wrong(b, "::ffff:1.2.3.4", 10999) == 50);
	CHECK(wrong(b, "::ffff:1.2.3.4", 11000) == 50);
	CHECK(wrong(b, "::ffff:1.2.3.4", 11000) == 100);
	for (int i = 0; i < 2; i++)
		CHECK(wrong(b, "::ffff:1.2.3.4", 51000) == 0);
	CHECK(wrong(b, "::ffff:1.2.3.4", 51000) == 50);
	use_up(b, "::ffff:1.2.3.4", UINT64_C(1) << 40);
	backoff_free(b);
}

TEST(a_place_is_an_ipv4_address_or_a_64)
{
	struct backoff *b = backoff_new();

	for (int i = 0; i < BACKOFF_FREE; i++) {
		char address[64];

		snprintf(address, sizeof(address), "2001:db8:1:2:%x::%x", i, 7 * i);
		CHECK(wrong(b, address, 0) == 0);
	}
	CHECK(wrong(b, "2001:db8:1:2:ffff::1", 0) == 50);
	CHECK(wrong(b, "2001:db8:1:3::1", 0) == 0);
	CHECK(wrong(b, "::ffff:0.0.0.1", 0) == 0);
	use_up(b, "::ffff:0.0.0.2", 0);
	CHECK(wrong(b, "::1", 0) == 0);
	backoff_free(b);
}

TEST(the_longest_unheard_of_makes_room)
{
	struct backoff *b = backoff_new();
	char address[64];

	use_up(b, "::ffff:9.9.9.9", 0);
	use_up(b, "::ffff:8.8.8.8", 0);
	for (int i = 0; i < BACKOFF_PLACES - 2; i++) {
		snprintf(address, sizeof(address), "2001:db8:%x::1", i);
		CHECK(wrong(b, address, 0) == 0);
	}
	/* both are there still; hearing of one keeps it */
	CHECK(wrong(b, "::ffff:9.9.9.9", 0) == 50);
	CHECK(wrong(b, "2001:dead::1", 0) == 0);
	CHECK(wrong(b, "::ffff:9.9.9.9", 0) == 100);
	CHECK(wrong(b, "::ffff:8.8.8.8", 0) == 0);
	for (int i = 0; i < 200000; i++) {
		snprintf(address, sizeof(address), "2001:%x:%x::1", i >> 16, i & 0xffff);
		wrong(b, address, 0);
	}
	use_up(b, "::ffff:9.9.9.9", 0);
	backoff_free(b);
}

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {TEST_CASE(waits_double_and_end),
	    TEST_CASE(one_is_forgotten_every_ten_seconds),
	    TEST_CASE(a_place_is_an_ipv4_address_or_a_64),
	    TEST_CASE(the_longest_unheard_of_makes_room), {NULL, NULL}};

	return sodium_init() < 0 ? 1 : test_main(cases, argc, argv);
}
