/*
 * cp.async: the destination is filled with NaN when the copy is issued, and the bytes land at the
 * wait that must cover them, the latest moment that is allowed. So a wait too late and a barrier
 * that is missing after it both show.
 */
#include "emu.h"

static void
land(const emu_copy *c)
{
	emu_race_access((void *)c->from, c->bytes, false);
	emu_race_access(c->to, c->bytes + c->zeros, true);
	memcpy(c->to, c->from, c->bytes);
	memset((char *)c->to + c->bytes, 0, c->zeros);
}

void
emu_pipe_copy(void *to, const void *from, size_t bytes, size_t zeros)
{
	emu_thread *t = &emu_now.thread[emu_now.current];

	if (t->open == nullptr) {
		t->open = new std::vector<emu_copy>;
		t->groups = new std::vector<std::vector<emu_copy>>;
	}
	emu_fill(to, bytes + zeros);
	t->open->push_back({to, from, bytes, zeros});
}

void
emu_pipe_commit(void)
{
	emu_thread *t = &emu_now.thread[emu_now.current];

	if (t->open == nullptr)
		return;
	t->groups->push_back(*t->open);
	t->open->clear();
}

void
emu_pipe_wait(int keep)
{
	emu_thread *t = &emu_now.thread[emu_now.current];

	if (t->open == nullptr)
		return;
	while ((int)t->groups->size() > keep) {
		for (const emu_copy &c : t->groups->front())
			land(&c);
		t->groups->erase(t->groups->begin());
	}
	if (keep == 0) {
		for (const emu_copy &c : *t->open)
			land(&c);
		t->open->clear();
	}
}
