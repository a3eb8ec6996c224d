/*
 * Operations of a warp: each lane leaves what it brings and waits; when the last lane of the mask
 * is there, all results are computed at once. Reading a lane that does not take part gives all
 * ones, a NaN, so that it shows in what the kernel puts out. But for __syncwarp all lanes have to
 * be at one instruction, which is a line of the source here.
 */
#include "emu.h"

static unsigned alive[EMU_THREADS / 32];   /* lanes that have not returned */
static unsigned waiting[EMU_THREADS / 32]; /* lanes that are in an operation */

void
emu_warp_begin(int threads)
{
	for (int w = 0; w * 32 < threads; w++) {
		int lanes = threads - w * 32;

		alive[w] = lanes >= 32 ? ~0u : (1u << lanes) - 1;
		waiting[w] = 0;
	}
}

static bool
is_shuffle(emu_op op)
{
	return op == EMU_SHFL_IDX || op == EMU_SHFL_XOR || op == EMU_SHFL_UP || op == EMU_SHFL_DOWN;
}

/* The lane whose value `lane` gets. */
static int
source(const emu_thread *t, int lane)
{
	int first = lane & ~(t->width - 1), end = first + t->width, from = lane;

	switch (t->op) {
	case EMU_SHFL_IDX:
		from = first | (t->argument & (t->width - 1));
		break;
	case EMU_SHFL_XOR:
		from = lane ^ t->argument;
		break;
	case EMU_SHFL_UP:
		from = lane - t->argument;
		break;
	case EMU_SHFL_DOWN:
		from = lane + t->argument;
		break;
	default:
		break;
	}
	return from < first || from >= end ? lane : from;
}

/* All of `lanes` are there: results, and everybody is ready. */
static void
complete(emu_thread *warp, int first, unsigned lanes, emu_op op)
{
	unsigned ballot = 0;
	void *calls[32] = {};

	for (int k = 0; k < 32; k++) {
		if (!(lanes >> k & 1))
			continue;
		calls[k] = warp[k].call;
		ballot |= warp[k].value != 0 ? 1u << k : 0;
	}
	for (int k = 0; k < 32; k++)
		if (op == EMU_CALL && lanes >> k & 1) {
			warp[k].function(calls, lanes);
			break;
		}
	for (int k = 0; k < 32; k++) {
		if (!(lanes >> k & 1))
			continue;
		if (is_shuffle(op)) {
			int from = source(&warp[k], k);

			warp[k].result = lanes >> from & 1 ? warp[from].value : ~0ull;
		} else if (op == EMU_BALLOT) {
			warp[k].result = ballot;
		}
	}
	if (op == EMU_SYNCWARP)
		emu_race_syncwarp(first, lanes);
	for (int k = 0; k < 32; k++)
		if (lanes >> k & 1)
			emu_ready(first + k);
}

/* `mask`: of the lane that came or left. */
static void
attempt(int w, unsigned mask)
{
	emu_thread *warp = &emu_now.thread[w * 32];
	unsigned seen = 0;

	if ((waiting[w] & mask) == 0 || (waiting[w] & mask) != (alive[w] & mask))
		return; /* mostly: not everybody is here yet */
	for (int l = 0; l < 32; l++) {
		unsigned need, got = 0;

		if (!(waiting[w] >> l & 1) || seen >> l & 1)
			continue;
		need = warp[l].mask & alive[w];
		for (int k = 0; k < 32; k++) {
			if (!(need >> k & 1) || !(waiting[w] >> k & 1))
				continue;
			if (warp[k].mask != warp[l].mask || warp[k].op != warp[l].op ||
			    (warp[k].line != warp[l].line && warp[k].op != EMU_SYNCWARP))
				emu_die("warp operations do not match: lane %d line %d mask %08x, "
					"lane %d line %d mask %08x",
				    l, warp[l].line, warp[l].mask, k, warp[k].line, warp[k].mask);
			got |= 1u << k;
		}
		seen |= need;
		if (got != need)
			continue;
		waiting[w] &= ~got;
		complete(warp, w * 32, got, warp[l].op);
	}
}

void
emu_warp_leave(int thread)
{
	int w = thread / 32;

	alive[w] &= ~(1u << (thread & 31));
	for (int l = 0; l < 32; l++)
		if (waiting[w] >> l & 1) {
			attempt(w, emu_now.thread[w * 32 + l].mask);
			break;
		}
}

static uint64_t
arrive(emu_thread *t, emu_op op, unsigned mask, int line)
{
	int lane = emu_now.current & 31, w = emu_now.current / 32;

	if (!(mask >> lane & 1))
		emu_die("line %d: the calling lane is not in mask %08x", line, mask);
	t->op = op;
	t->mask = mask;
	t->line = line;
	t->state = EMU_AT_WARP;
	waiting[w] |= 1u << lane;
	attempt(w, mask);
	emu_wait();
	return t->result;
}

uint64_t
emu_warp(emu_op op, unsigned mask, uint64_t value, int argument, int width, int line)
{
	emu_thread *t = &emu_now.thread[emu_now.current];

	t->value = value;
	t->argument = argument;
	t->width = width;
	return arrive(t, op, mask, line);
}

void
emu_warp_call(emu_warp_function *function, void *argument, unsigned mask, int line)
{
	emu_thread *t = &emu_now.thread[emu_now.current];

	t->function = function;
	t->call = argument;
	t->value = 0;
	arrive(t, EMU_CALL, mask, line);
}
