/* Slots of devices: who may take one, after a GPU failed under its worker too. */
#include "supervisor/session/slot.h"
#include "tests/unit/test.h"

/* One GPU, as a search finds it. */
static struct devices
found(bool verified, bool held)
{
	struct devices all = {.count = 1};

	strcpy(all.at[0].uuid, "GPU-1");
	strcpy(all.at[0].name, "A");
	strcpy(all.at[0].error, verified ? "" : "why not");
	all.at[0].verified = verified;
	all.at[0].held = held;
	return all;
}

static void
set_up(struct slots *s)
{
	const struct devices all = found(true, false);
	char unknown[128];

	CHECK(slots_init(s, &all, "auto", unknown) == 0 && s->count == 1);
}

static void
update(struct slots *s, bool verified, bool held)
{
	const struct devices all = found(verified, held);

	slots_update(s, &all, "auto");
}

TEST(one_session_each)
{
	struct slot *slot;
	struct slots s;

	set_up(&s);
	slot = slots_take(&s, SLOT_GPU);
	CHECK(slot != NULL && slots_take(&s, SLOT_ANY) == NULL && slots_take(&s, SLOT_CPU) == NULL);
	CHECK(
	    slots_have(&s, SLOT_GPU) && !slots_have(&s, SLOT_CPU) && !slots_any_free(&s, SLOT_ANY));
	slot_release(slot);
	CHECK(slots_any_free(&s, SLOT_GPU) && !slots_any_free(&s, SLOT_CPU));
	CHECK(slots_take(&s, SLOT_ANY) == slot);
}

/* A search that does not compute on what a session has says nothing of it; one that does, does. */
TEST(one_that_failed_stays_closed)
{
	struct slot *slot;
	struct slots s;

	set_up(&s);
	slot = slots_take(&s, SLOT_GPU);
	update(&s, false, true);
	CHECK(!slot->closed);
	slot->failed = true;
	slot_release(slot);
	CHECK(!slots_have(&s, SLOT_GPU) && !slots_any_free(&s, SLOT_ANY) &&
	      slots_take(&s, SLOT_ANY) == NULL);
	update(&s, false, true);
	CHECK(slots_take(&s, SLOT_ANY) == NULL);
	update(&s, false, false);
	CHECK(slots_take(&s, SLOT_ANY) == NULL);
	update(&s, true, false);
	CHECK(slots_take(&s, SLOT_GPU) == slot);
	slot_release(slot);
	CHECK(slots_any_free(&s, SLOT_ANY));
}

TEST_MAIN(TEST_CASE(one_session_each), TEST_CASE(one_that_failed_stays_closed))
