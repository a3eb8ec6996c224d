/*
 * One block: which of its threads runs next, barriers, and what a block must not do at them.
 *
 * A thread runs undisturbed until it waits; then one of those that are ready is drawn. A fiber
 * whose thread returned starts the next one that has not begun, so a kernel without barriers runs
 * as a plain loop.
 */
#include "emu.h"

#include <stdio.h>
#include <unistd.h>

emu_index emu_thread_index, emu_block_index, emu_block_size, emu_grid_size;
emu_block emu_now;

static int ready[EMU_THREADS], ready_head, ready_count; /* a ring */
static int starting;					/* the thread a new fiber begins with */
static int barrier_count, barrier_line;

void
emu_ready(int thread)
{
	emu_now.thread[thread].state = EMU_READY;
	ready[(ready_head + ready_count++) % EMU_THREADS] = thread;
}

/* Takes one of the ready threads; -1: there is none. */
static int
draw(void)
{
	int k, thread;

	if (ready_count == 0)
		return -1;
	k = emu_seed == 0 ? 0 : emu_seed == 1 ? ready_count - 1 : (int)emu_random(ready_count);
	thread = ready[(ready_head + k) % EMU_THREADS];
	if (emu_seed != 1) { /* the head moves into the gap */
		ready[(ready_head + k) % EMU_THREADS] = ready[ready_head];
		ready_head = (ready_head + 1) % EMU_THREADS;
	}
	ready_count--;
	return thread;
}

static void
enter(int thread)
{
	emu_thread *t = &emu_now.thread[thread];

	emu_now.current = thread;
	t->state = EMU_RUNS;
	emu_thread_index = t->index;
	emu_race_segment(emu_now.index, thread, emu_now.barrier_epoch);
}

[[noreturn]] static void
deadlock(void)
{
	int told = 0;

	fprintf(stderr, "EMU ERROR: deadlock in %s block (%u,%u,%u): %d live threads\n", emu_kernel,
	    emu_block_index.x, emu_block_index.y, emu_block_index.z, emu_now.live);
	for (int i = 0; i < emu_now.threads && told < 8; i++) {
		const emu_thread *t = &emu_now.thread[i];

		if (t->state != EMU_AT_BARRIER && t->state != EMU_AT_WARP)
			continue;
		told++;
		fprintf(stderr, "  thread %d waits at line %d for %s mask %08x\n", i, t->line,
		    t->state == EMU_AT_BARRIER ? "__syncthreads" : "its warp", t->mask);
	}
	fflush(stdout);
	_exit(99);
}

static emu_fiber *
fiber_for(int thread)
{
	if (emu_now.thread[thread].fiber != nullptr)
		return emu_now.thread[thread].fiber;
	starting = thread;
	return emu_fiber_get();
}

void
emu_wait(void)
{
	int me = emu_now.current, next;

	next = draw();
	if (next < 0)
		deadlock();
	if (next != me)
		emu_fiber_switch(emu_now.thread[me].fiber, fiber_for(next));
	enter(me);
}

void
emu_barrier(int line)
{
	emu_thread *me = &emu_now.thread[emu_now.current];

	me->state = EMU_AT_BARRIER;
	me->line = line;
	if (barrier_count > 0 && line != barrier_line)
		emu_die("divergent __syncthreads: lines %d and %d", barrier_line, line);
	barrier_line = line;
	if (emu_now.live < emu_now.threads)
		emu_die("__syncthreads (line %d) after some threads of the block returned", line);
	if (++barrier_count == emu_now.live) {
		barrier_count = 0;
		emu_now.barrier_epoch++;
		for (int i = 0; i < emu_now.threads; i++)
			if (emu_now.thread[i].state == EMU_AT_BARRIER)
				emu_ready(i);
	}
	emu_wait();
}

/* The body of a fiber: thread after thread, for ever. */
static void
fiber_main(void)
{
	emu_fiber *self = emu_fiber_of(__builtin_frame_address(0));

	for (int me = starting;;) {
		emu_thread *t = &emu_now.thread[me];
		int next;

		enter(me);
		t->fiber = self;
		emu_now.run(emu_now.context);
		emu_pipe_commit(); /* what is on its way arrives, in time for nobody */
		emu_pipe_wait(0);
		t->state = EMU_DONE;
		emu_now.live--;
		if (barrier_count > 0)
			emu_die("thread returned while others of its block wait at __syncthreads "
				"(line %d)",
			    barrier_line);
		emu_warp_leave(me);
		next = draw();
		if (next >= 0 && emu_now.thread[next].fiber == nullptr) {
			me = next;
			continue;
		}
		if (next < 0 && emu_now.live > 0)
			deadlock();
		emu_fiber_put(self);
		emu_fiber_switch(self, next < 0 ? &emu_main_fiber : emu_now.thread[next].fiber);
		me = starting;
	}
}

void
emu_block_run(unsigned index, int threads, emu_trampoline *run, void *context)
{
	int first;

	emu_fibers_open(fiber_main);
	emu_now.index = index;
	emu_now.threads = emu_now.live = threads;
	emu_now.barrier_epoch = 0;
	emu_now.run = run;
	emu_now.context = context;
	ready_head = ready_count = barrier_count = 0;
	emu_warp_begin(threads);
	for (int i = 0; i < threads; i++) {
		emu_now.thread[i].fiber = nullptr;
		emu_ready(i);
	}
	first = draw();
	emu_fiber_switch(&emu_main_fiber, fiber_for(first));
}
