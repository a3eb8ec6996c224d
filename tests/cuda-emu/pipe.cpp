/*
 * cp.async: the destination is filled with NaN when the copy is issued, and the bytes land at the
 * wait that must cover them, the latest moment that is allowed. So a wait too late, a barrier that
 * is missing after it, and a copy that nobody committed all show: a wait is for committed groups
 * (PTX ISA, cp.async.wait_group).
 */
#include "emu.h"

static void
land(const std::vector<emu_copy> &group)
{
	for (const emu_copy &c : group) {
		emu_race_access((void *)c.from, c.bytes, EMU_READ);
		emu_race_access(c.to, c.bytes + c.zeros, EMU_WRITE);
		memcpy(c.to, c.from, c.bytes);
		memset((char *)c.to + c.bytes, 0, c.zeros);
	}
}

void
emu_pipe_copy(void *to, const void *from, size_t bytes, size_t zeros)
{
	emu_thread *t = &emu_now.thread[emu_now.current];

	if (t->open == nullptr) {
		t->open = new std::vector<emu_copy>;
		t->groups = new std::vector<std::vector<emu_copy>>;
	}
	emu_race_access((void *)from, bytes, EMU_READ);
	emu_race_access(to, bytes + zeros, EMU_WRITE_LATER);
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
		land(t->groups->front());
		t->groups->erase(t->groups->begin());
	}
}
