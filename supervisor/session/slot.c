#include "supervisor/session/slot.h"

void
slots_init(struct slots *s, const char *devices)
{
	/* "auto" and "cpu" are the same where a CPU is all there is. A CPU is one device: two
	   sessions at a time would each be half as fast, and twice the memory. */
	(void)devices;
	*s = (struct slots){.count = 1};
	s->slots[0].device = "cpu";
}

struct slot *
slots_take(struct slots *s)
{
	for (size_t i = 0; i < s->count; i++) {
		if (!s->slots[i].taken) {
			s->slots[i].taken = true;
			return &s->slots[i];
		}
	}
	return NULL;
}

void
slot_release(struct slot *slot)
{
	if (slot != NULL)
		slot->taken = false;
}

bool
slots_any_taken(const struct slots *s)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->slots[i].taken)
			return true;
	}
	return false;
}

bool
slots_any_free(const struct slots *s)
{
	for (size_t i = 0; i < s->count; i++) {
		if (!s->slots[i].taken)
			return true;
	}
	return false;
}
