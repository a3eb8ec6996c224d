/*
 * A launch: the order of its blocks, and shared memory that holds NaN when a block begins. EMU_SEED
 * chooses the order (0 ascending, 1 descending, else pseudo-random).
 *
 * EMU_HUGE=1 is for arrays larger than this machine's memory, whose pages exist only where they are
 * touched: what is allocated holds 0, a device is so large that a thread has one element, and of a
 * grid only the first and the last blocks run, ENDS of a row, ENDS_OF_ROWS of the first and the
 * last of several rows.
 */
#include "emu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

enum { PAST = 4096, ENDS = 1024, ENDS_OF_ROWS = 8 };

const char *emu_kernel = "no kernel";
int emu_seed = 2;
bool emu_huge;
static uint64_t random_state = 88172645463325252u;
static unsigned char *dynamic; /* shared_most + PAST bytes */
static size_t dynamic_bytes;   /* that this launch has */

void
emu_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "EMU ERROR in %s block (%u,%u,%u) thread (%u,%u,%u): ", emu_kernel,
	    emu_block_index.x, emu_block_index.y, emu_block_index.z, emu_thread_index.x,
	    emu_thread_index.y, emu_thread_index.z);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	fflush(stdout);
	_exit(99);
}

unsigned
emu_random(unsigned n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)((random_state >> 20) % n);
}

void
emu_open(void)
{
	static bool done;

	if (done)
		return;
	done = true;
	if (getenv("EMU_SEED") != nullptr)
		emu_seed = atoi(getenv("EMU_SEED"));
	emu_limits_open();
	emu_huge = getenv("EMU_HUGE") != nullptr;
	random_state += 7919u * (uint64_t)emu_seed;
	dynamic = (unsigned char *)mmap(nullptr, emu_shared_most + PAST, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (dynamic == MAP_FAILED)
		emu_die("no memory for shared memory");
}

void *
emu_dynamic_shared(void)
{
	return dynamic;
}

void
emu_check_pointer(const char *kernel, const void *pointer)
{
	if (pointer == nullptr || emu_is_device(pointer))
		return;
	emu_kernel = kernel;
	emu_die("argument %p is not device memory", pointer);
}

/* Of a build whose static arrays have no section, all that is not the device's memory may be one.
 */
void
emu_check_shared(const void *p, size_t bytes, const char *what)
{
	const char *at = (const char *)p, *base = (const char *)dynamic;
	char *from, *to;

	emu_shared_section(&from, &to);
	if (at >= base && at + bytes <= base + dynamic_bytes)
		return;
	if (from == to ? !emu_is_device(p) : at >= from && at + bytes <= to)
		return;
	emu_die("%s: %p is not in shared memory", what, p);
}

static std::vector<unsigned>
ends_of(dim3 grid)
{
	unsigned row = grid.y * grid.z == 1 ? ENDS : ENDS_OF_ROWS;
	std::vector<unsigned> order;

	for (unsigned z : {0u, grid.z - 1})
		for (unsigned y : {0u, grid.y - 1})
			for (unsigned x = 0; x < grid.x; x++)
				if (x < row || x + row >= grid.x)
					order.push_back(x + grid.x * (y + grid.y * z));
	std::sort(order.begin(), order.end());
	order.erase(std::unique(order.begin(), order.end()), order.end());
	return order;
}

static std::vector<unsigned>
order_of(dim3 grid)
{
	size_t all = (size_t)grid.x * grid.y * grid.z;
	unsigned blocks = (unsigned)all;

	if (all > UINT32_MAX)
		emu_die("a grid of %zu blocks is more than the emulation counts", all);
	if (emu_huge)
		return ends_of(grid);

	std::vector<unsigned> order(blocks);

	for (unsigned i = 0; i < blocks; i++)
		order[i] = emu_seed == 1 ? blocks - 1 - i : i;
	for (unsigned i = blocks; i > 1 && emu_seed > 1; i--)
		std::swap(order[i - 1], order[emu_random(i)]);
	return order;
}

/* All blocks of the grid. */
static void
run_grid(const char *name, dim3 grid, dim3 block, size_t shared, emu_trampoline *run, void *context)
{
	int threads = (int)(block.x * block.y * block.z);
	char *from, *to;

	emu_shared_section(&from, &to);
	emu_heap_use heap;

	emu_kernel = name;
	dynamic_bytes = shared;
	emu_block_size = {block.x, block.y, block.z};
	emu_grid_size = {grid.x, grid.y, grid.z};
	for (unsigned i = 0; i < (unsigned)threads; i++)
		emu_now.thread[i].index = {
		    i % block.x, i / block.x % block.y, i / (block.x * block.y)};
	ASAN_UNPOISON_MEMORY_REGION(dynamic, emu_shared_most + PAST);
	ASAN_POISON_MEMORY_REGION(dynamic + shared, emu_shared_most + PAST - shared);
	emu_race_launch(name, true);
	for (unsigned index : order_of(grid)) {
		emu_block_index = {
		    index % grid.x, index / grid.x % grid.y, index / (grid.x * grid.y)};
		if (to > from) {
			emu_fill(from, to - from);
			emu_race_region(from, to - from, EMU_SHARED);
		}
		emu_fill(dynamic, shared);
		emu_race_region(dynamic, emu_shared_most + PAST, EMU_SHARED);
		emu_race_region(dynamic + shared, emu_shared_most + PAST - shared, EMU_SHARED_PAST);
		emu_block_run(index, threads, run, context);
	}
	emu_race_launch(name, false);
	emu_kernel = "no kernel";
}

/* A launch's arguments, for later. */
static emu_node
copy_launch(const char *name, dim3 grid, dim3 block, size_t shared, emu_trampoline *run,
    const void *context, size_t bytes)
{
	enum { SIDE = 64 }; /* what any argument may be aligned to */
	std::vector<unsigned char> copy(
	    (const unsigned char *)context, (const unsigned char *)context + bytes);

	return [=]() {
		std::vector<unsigned char> room(bytes + SIDE);
		unsigned char *at = room.data() + SIDE - (uintptr_t)room.data() % SIDE;

		memcpy(at, copy.data(), bytes);
		run_grid(name, grid, block, shared, run, at);
	};
}

void
emu_launch(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared,
    cudaStream_t stream, emu_trampoline *run, void *context, size_t bytes)
{
	cudaError_t error;

	emu_open();
	error = emu_check_launch(kernel, grid, block, shared);
	if (error != cudaSuccess)
		(void)emu_fail(error);
	if (error != cudaSuccess || emu_refuses(EMU_LAUNCH, name, &error))
		return;
	if (!emu_records(stream))
		run_grid(name, grid, block, shared, run, context);
	else if (emu_recorded(
		     stream, copy_launch(name, grid, block, shared, run, context, bytes), &error))
		(void)emu_fail(error);
}
