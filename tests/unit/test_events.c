/* The ring of a session's events: order, growth, what it lost. */
#include "supervisor/status/event_ring.h"
#include "tests/unit/test.h"

static void
add(struct event_ring *ring, uint64_t id)
{
	struct told told = {.id = id, .kind = EVENT_RESTART, .step = id, .restart.class = "killed"};

	event_ring_add(ring, &told);
}

TEST(nothing_happened)
{
	struct event_ring ring = {.lost = 7};

	CHECK(event_ring_after(&ring, 0) == NULL && event_ring_newest(&ring) == 7);
	event_ring_shrink(&ring, 4);
	event_ring_fini(&ring);
	CHECK(event_ring_newest(&ring) == 0);
}

/* Ids have holes: other sessions have events too. */
TEST(the_newest_are_kept)
{
	struct event_ring ring = {0};
	uint64_t at = 0;
	size_t seen = 0;

	for (uint64_t i = 1; i <= EVENTS_KEPT; i++)
		add(&ring, 3 * i);
	CHECK(ring.lost == 0 && ring.count == EVENTS_KEPT &&
	      event_ring_newest(&ring) == 3 * EVENTS_KEPT);
	CHECK(event_ring_after(&ring, 0)->id == 3 && event_ring_after(&ring, 3)->id == 6);
	CHECK(event_ring_after(&ring, 4)->id == 6 &&
	      event_ring_after(&ring, 3 * EVENTS_KEPT) == NULL);
	for (uint64_t i = EVENTS_KEPT + 1; i <= EVENTS_KEPT + 10; i++)
		add(&ring, 3 * i);
	CHECK(ring.count == EVENTS_KEPT && ring.size == EVENTS_KEPT && ring.lost == 30);
	for (const struct told *t; (t = event_ring_after(&ring, at)) != NULL; at = t->id, seen++)
		CHECK(t->id == 30 + 3 * (seen + 1) && t->step == t->id);
	CHECK(seen == EVENTS_KEPT);
	event_ring_shrink(&ring, 5);
	CHECK(ring.size == 5 && ring.count == 5 && ring.lost == 3 * (EVENTS_KEPT + 5));
	CHECK(event_ring_after(&ring, 0)->id == 3 * (EVENTS_KEPT + 6));
	add(&ring, 4000); /* it may grow again */
	CHECK(ring.count == 6 && ring.lost == 3 * (EVENTS_KEPT + 5) &&
	      event_ring_newest(&ring) == 4000);
	event_ring_fini(&ring);
}

TEST(texts)
{
	struct told step = {
	    .id = 5, .kind = EVENT_STEP, .step = 3, .trained = {0.5, 0.25, 100, 40, 3}};
	struct told state = {.id = 6, .kind = EVENT_STATE, .state.state = "restoring"};
	size_t len;
	char *text = told_text(&step, &len);

	CHECK_STR(text, "id: 5\nevent: step\ndata: {\"step\":3,\"loss\":0.5,\"gradient_norm\":0.25,"
			"\"input_token_count\":100,\"supervised_token_count\":40,"
			"\"at\":\"1970-01-01T00:00:00Z\"}\n\n");
	CHECK(len == strlen(text));
	free(text);
	/* whatever a reason holds, it is one line */
	snprintf(state.state.reason, sizeof(state.state.reason), "a\nb");
	text = told_text(&state, &len);
	CHECK(strstr(text, "\"reason\":\"a\\nb\"") != NULL &&
	      strchr(strstr(text, "data"), '\n')[1] == '\n');
	free(text);
}

TEST_MAIN(TEST_CASE(nothing_happened), TEST_CASE(the_newest_are_kept), TEST_CASE(texts))
