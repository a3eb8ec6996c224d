/*
 * Races and reads of what was never written.
 *
 * The kernels of the race build are compiled with -fsanitize=thread for its instrumentation only;
 * the functions it calls are here, and libtsan is not linked. Each byte of shared and device memory
 * has a cell: who wrote it last, two that read it since, whether it was ever written. "Who" is a
 * segment: one uninterrupted run of a thread, with its block, its epoch of barriers and its time,
 * which a __syncwarp moves on. Two accesses are in order if the thread is the same, if a
 * __syncthreads lies between them, or, in one warp, if the later thread knows by way of __syncwarp,
 * of the lanes in its mask only, that the earlier one got so far. Blocks of a launch are never in
 * order. Atomics conflict with plain accesses alone.
 */
#include "emu.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned ATOMIC = 0x80000000u;
enum { NOT_ALLOCATED, ALLOCATED, WRITTEN, ON_ITS_WAY /* by cp.async */ };

struct segment {
	unsigned block, thread, barrier, time;
};
struct cell {
	unsigned writer, reader, other_reader; /* segments; the writer's may have ATOMIC */
	unsigned state;
};
struct range {
	char *from;
	size_t bytes;
	cell *cells;
};

static std::vector<segment> segments; /* of this launch; the first has the number launch_base */
static unsigned launch_base = 1, block_base = 1, current, last_block = ~0u;
static segment me;
static unsigned known[EMU_THREADS][32]; /* to each thread: the time of each lane of its warp */
static bool running;
static range shared[2]; /* static arrays, dynamic area */
static char *past_from, *past_to;
static cell *device_cells;
static char *heap;
static size_t heap_bytes;
static const char *kernel_name;

static cell *
cells_new(size_t bytes)
{
	void *cells = mmap(nullptr, bytes * sizeof(cell), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (cells == MAP_FAILED)
		emu_die("no memory for the race checker");
	return (cell *)cells;
}

static cell *
device_cell(const void *p)
{
	if (device_cells == nullptr) {
		heap = emu_heap_base(&heap_bytes);
		device_cells = cells_new(heap_bytes);
	}
	return device_cells + ((const char *)p - heap);
}

static uintptr_t
program_base(void)
{
	uintptr_t base = 0;

	dl_iterate_phdr(
	    [](struct dl_phdr_info *info, size_t, void *to) {
		    *(uintptr_t *)to = info->dlpi_addr;
		    return 1;
	    },
	    &base);
	return base;
}

[[noreturn]] static void
report(const char *what, const char *at, bool is_shared, unsigned other, void *pc)
{
	char command[200];

	fprintf(stderr, "EMU RACE CHECK: %s in %s, %s address %p, block %u thread %u", what,
	    kernel_name, is_shared ? "shared" : "global", (const void *)at, me.block, me.thread);
	if (other != 0) {
		const segment *s = &segments[(other & ~ATOMIC) - launch_base];

		fprintf(stderr, " against block %u thread %u", s->block, s->thread);
	}
	fprintf(stderr, "\n");
	fflush(stderr);
	snprintf(command, sizeof(command), "addr2line -s -p -f -i -C -e /proc/%d/exe %#lx 1>&2",
	    getpid(), (unsigned long)((uintptr_t)pc - 1 - program_base()));
	if (system(command) != 0)
		fprintf(stderr, "(no addr2line)\n");
	fflush(stdout);
	_exit(98);
}

static bool
races(unsigned with, bool atomic)
{
	const segment *s = &segments[(with & ~ATOMIC) - launch_base];

	if (atomic && (with & ATOMIC) != 0)
		return false;
	if (s->block != me.block)
		return true;
	return s->thread != me.thread && s->barrier == me.barrier &&
	       !(s->thread / 32 == me.thread / 32 && known[me.thread][s->thread % 32] >= s->time);
}

static void
byte_read(cell *c)
{
	if (c->reader == current)
		return;
	if (c->reader >= launch_base && segments[c->reader - launch_base].thread != me.thread)
		c->other_reader = c->reader;
	c->reader = current;
}

/* The cells of [p, p+bytes), and the oldest segment that still counts there; NULL: not ours. */
static cell *
find(char *p, bool *is_shared, unsigned *oldest)
{
	*is_shared = true;
	*oldest = block_base;
	for (range &r : shared)
		if ((size_t)(p - r.from) < r.bytes)
			return r.cells + (p - r.from);
	*is_shared = false;
	*oldest = launch_base;
	return heap != nullptr && (size_t)(p - heap) < heap_bytes ? device_cell(p) : nullptr;
}

static void
access(void *memory, size_t bytes, bool write, bool atomic, bool aligned, void *pc)
{
	char *p = (char *)memory;
	bool is_shared;
	unsigned oldest;
	cell *c = running ? find(p, &is_shared, &oldest) : nullptr;

	if (c == nullptr)
		return;
	if (is_shared && p >= past_from && p < past_to)
		report("access past the dynamic shared memory of this launch", p, true, 0, pc);
	if (aligned && ((uintptr_t)p & (bytes - 1)) != 0)
		report("misaligned access", p, is_shared, 0, pc);
	for (size_t i = 0; i < bytes; i++, c++) {
		unsigned writer = c->writer & ~ATOMIC;

		if (!is_shared && c->state == NOT_ALLOCATED)
			report("access outside any allocation", p + i, false, 0, pc);
		if (c->state == ON_ITS_WAY)
			report("access to what cp.async still brings", p + i, is_shared, c->writer,
			    pc);
		if (writer >= oldest && writer != current && races(c->writer, atomic))
			report(write ? "write after write" : "read after write", p + i, is_shared,
			    c->writer, pc);
		if ((!write || atomic) && (is_shared ? writer < oldest : c->state != WRITTEN))
			report("uninitialised read", p + i, is_shared, 0, pc);
		if (!write) {
			byte_read(c);
			continue;
		}
		for (unsigned reader : {c->reader, c->other_reader})
			if (reader >= oldest && races(reader, false))
				report("write after read", p + i, is_shared, reader, pc);
		c->writer = current | (atomic ? ATOMIC : 0);
		c->state = WRITTEN;
	}
}

extern "C" {
void
emu_race_segment(unsigned block, unsigned thread, unsigned barrier)
{
	current = launch_base + (unsigned)segments.size();
	if (block != last_block) {
		block_base = current;
		memset(known, 0, sizeof(known));
		for (unsigned t = 0; t < EMU_THREADS; t++)
			known[t][t % 32] = 1;
	}
	last_block = block;
	me = {block, thread, barrier, known[thread][thread % 32]};
	segments.push_back(me);
}

/* Each of the lanes learns what all of them know, and begins a new time. */
void
emu_race_syncwarp(unsigned first, unsigned lanes)
{
	unsigned all[32] = {};

	for (unsigned l = 0; l < 32; l++)
		for (unsigned k = 0; k < 32 && (lanes >> l & 1); k++)
			all[k] = known[first + l][k] > all[k] ? known[first + l][k] : all[k];
	for (unsigned l = 0; l < 32; l++)
		if (lanes >> l & 1) {
			memcpy(known[first + l], all, sizeof(all));
			known[first + l][l]++;
		}
}

void
emu_race_launch(const char *kernel, bool begin)
{
	kernel_name = kernel;
	running = begin;
	if (!begin)
		return;
	launch_base += (unsigned)segments.size();
	if (launch_base > ATOMIC / 2)
		emu_die("too many segments for the race checker");
	segments.clear();
	last_block = ~0u;
}

void
emu_race_region(void *memory, size_t bytes, emu_region region)
{
	char *p = (char *)memory;
	range *r = shared[0].from == p || shared[0].from == nullptr ? &shared[0] : &shared[1];

	if (region == EMU_SHARED_PAST) {
		past_from = p;
		past_to = p + bytes;
	} else if (region == EMU_SHARED) {
		if (r->from != p || r->bytes < bytes)
			*r = {p, bytes, cells_new(bytes)};
		r->bytes = bytes;
	} else {
		cell *c = device_cell(p);
		unsigned state = region == EMU_WRITTEN ? WRITTEN
				 : region == EMU_FRESH ? ALLOCATED
						       : NOT_ALLOCATED;

		for (size_t i = 0; i < bytes; i++)
			c[i].state = state;
	}
}

#define PC __builtin_return_address(0)

void
emu_atomic(void *address, size_t bytes)
{
	access(address, bytes, true, true, true, PC);
}

/* Of cp.async alone: what is on its way may be written by its arrival. */
void
emu_race_access(void *memory, size_t bytes, emu_access how)
{
	bool is_shared;
	unsigned oldest;
	cell *c = find((char *)memory, &is_shared, &oldest);

	for (size_t i = 0; c != nullptr && how == EMU_WRITE && i < bytes; i++)
		c[i].state = WRITTEN;
	access(memory, bytes, how != EMU_READ, false, false, PC);
	for (size_t i = 0; c != nullptr && how == EMU_WRITE_LATER && i < bytes; i++)
		c[i].state = ON_ITS_WAY;
}

void
__tsan_init(void)
{
}

void
__tsan_func_entry(void *pc)
{
	(void)pc;
}

void
__tsan_func_exit(void)
{
}

#define TSAN_SIZE(n)                                                                               \
	void __tsan_read##n(void *p)                                                               \
	{                                                                                          \
		access(p, n, false, false, true, PC);                                              \
	}                                                                                          \
	void __tsan_write##n(void *p)                                                              \
	{                                                                                          \
		access(p, n, true, false, true, PC);                                               \
	}                                                                                          \
	void __tsan_unaligned_read##n(void *p)                                                     \
	{                                                                                          \
		access(p, n, false, false, false, PC);                                             \
	}                                                                                          \
	void __tsan_unaligned_write##n(void *p)                                                    \
	{                                                                                          \
		access(p, n, true, false, false, PC);                                              \
	}
TSAN_SIZE(1)
TSAN_SIZE(2)
TSAN_SIZE(4)
TSAN_SIZE(8)
TSAN_SIZE(16)

/* clang 14 copies structs by plain memcpy: objcopy renames it in the kernels' objects. */
void *
__tsan_memcpy(void *to, const void *from, size_t n)
{
	access((void *)from, n, false, false, false, PC);
	access(to, n, true, false, false, PC);
	return memcpy(to, from, n);
}

void *
__tsan_memmove(void *to, const void *from, size_t n)
{
	access((void *)from, n, false, false, false, PC);
	access(to, n, true, false, false, PC);
	return memmove(to, from, n);
}

void *
__tsan_memset(void *to, int value, size_t n)
{
	access(to, n, true, false, false, PC);
	return memset(to, value, n);
}
}
