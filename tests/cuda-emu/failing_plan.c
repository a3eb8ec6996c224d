#include "tests/cuda-emu/failing_plan.h"

#include <stdlib.h>

enum { ERRORS_MOST = 5 };

/* Per class: CUDA's errors (cuBLAS' in the last two), | LATE where it is told later. */
static const int errors_of[EMU_CLASSES][ERRORS_MOST] = {
    [EMU_LAUNCH] = {719 | LATE, 700 | LATE, 214 | LATE, 701, 2},
    [EMU_MALLOC] = {2, 46, 700, 999},
    [EMU_FREE] = {719, 214},
    [EMU_HOST] = {2, 46},
    [EMU_COPY] = {719 | LATE, 214 | LATE, 700, 1},
    [EMU_SET] = {719 | LATE, 700},
    [EMU_STREAM] = {2, 46},
    [EMU_SYNC] = {719, 214, 46, 999},
    [EMU_ERROR] = {700, 214},
    [EMU_CAPTURE] = {900, 2, 801, 719},
    [EMU_GRAPH] = {719 | LATE, 214 | LATE, 700, 900, 2},
    [EMU_DEVICE] = {35, 46, 100, 3, 2},
    [EMU_BLAS] = {1, 3},
    [EMU_GEMM] = {13, 3, 700 | LATE, 14},
};

static void
plan_add(struct plan *p, const struct run *run, uint32_t site)
{
	const uint32_t late = run->error & LATE;

	if (p->count == p->room) {
		p->room = p->room == 0 ? 1024 : 2 * p->room;
		p->cases = realloc(p->cases, p->room * sizeof(*p->cases));
		p->place = realloc(p->place, p->room * sizeof(*p->place));
	}
	p->place[p->count] = process_digest(
	    process_digest(site, &run->what, sizeof(run->what)), &late, sizeof(late));
	p->cases[p->count++] = *run;
}

void
plan_operation(struct plan *p, const struct operation *operation)
{
	const struct emu_fail_page *page = process_page();
	struct run run = {.operation = operation};
	uint32_t calls[EMU_CLASSES] = {0};

	process_note(operation);
	for (uint32_t i = 0; i < page->noted; i++) {
		run.what = page->call[i].what;
		run.nth = ++calls[run.what];
		for (int e = 0; e < ERRORS_MOST && errors_of[run.what][e] != 0; e++) {
			run.error = (uint32_t)errors_of[run.what][e];
			plan_add(p, &run, page->call[i].site);
		}
	}
}

static size_t
draw(struct plan *p, size_t n)
{
	p->random = p->random * 6364136223846793005u + 1442695040888963407u;
	return (size_t)((p->random >> 33) % n);
}

static void
swap(struct plan *p, size_t a, size_t b)
{
	const struct run run = p->cases[a];
	const uint64_t place = p->place[a];

	p->cases[a] = p->cases[b];
	p->place[a] = p->place[b];
	p->cases[b] = run;
	p->place[b] = place;
}

size_t
plan_order(struct plan *p)
{
	size_t firsts = 0;

	for (size_t i = p->count; i > 1; i--)
		swap(p, i - 1, draw(p, i));
	for (size_t i = 0; i < p->count; i++) {
		bool seen = false;

		for (size_t k = 0; k < firsts && !seen; k++)
			seen = p->place[k] == p->place[i];
		if (!seen)
			swap(p, firsts++, i);
	}
	return firsts;
}

void
plan_fini(struct plan *p)
{
	free(p->cases);
	free(p->place);
}
