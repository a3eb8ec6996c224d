/*
 * The device's memory: one reserved range that the host cannot touch but while a kernel, a copy or
 * cuBLAS runs, so a host that follows a device pointer dies as it should. What is allocated holds
 * NaN; addresses are not used again, so what was freed stays known. EMU_MEMORY is its size in
 * bytes (32 GiB, of which only what is touched exists); EMU_GUARD=0 leaves it open to the host,
 * which saves most of the time of small launches.
 */
#include "emu.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include "emu_count.h"

static const size_t RANGE = 1ul << 37; /* of addresses */
enum { PAGE = 4096, ALIGN = 256 };

std::recursive_mutex emu_lock;
static char *heap, *top;
static size_t memory_size = 32ul << 30, in_use;
static bool guarded = true;
static std::map<char *, size_t> allocations;

EMU_UNCHECKED void
emu_fill(void *memory, size_t bytes)
{
	asm volatile("rep stosb" : "+D"(memory), "+c"(bytes) : "a"(0xff) : "memory");
}

char *
emu_heap_base(size_t *bytes)
{
	*bytes = RANGE;
	return heap;
}

static void
heap_begin(void)
{
	if (heap != nullptr)
		return;
	emu_open();
	heap = top = (char *)mmap(
	    nullptr, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (heap == MAP_FAILED)
		emu_die("no addresses for the device's memory");
	if (getenv("EMU_MEMORY") != nullptr)
		memory_size = strtoul(getenv("EMU_MEMORY"), nullptr, 10);
	if (getenv("EMU_GUARD") != nullptr)
		guarded = atoi(getenv("EMU_GUARD")) != 0;
}

void
emu_heap_open(bool open)
{
	static size_t opened;
	size_t used = ((size_t)(top - heap) + PAGE - 1) / PAGE * PAGE;

	if (!guarded) {
		if (used > opened)
			mprotect(heap + opened, used - opened, PROT_READ | PROT_WRITE);
		opened = used;
	} else if (used > 0)
		mprotect(heap, used, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

bool
emu_is_device(const void *p)
{
	return heap != nullptr && (const char *)p >= heap && (const char *)p < heap + RANGE;
}

bool
emu_inside(const void *p, size_t bytes)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);
	auto it = allocations.upper_bound((char *)p);

	if (bytes == 0)
		return true;
	if (it == allocations.begin())
		return false;
	--it;
	return (const char *)p + bytes <= it->first + it->second;
}

cudaError_t
cudaMalloc(void **out, size_t bytes)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);
	cudaError_t error;
	size_t padded;

	heap_begin();
	*out = nullptr;
	if (emu_refuses(EMU_MALLOC, "cudaMalloc", &error) ||
	    emu_forbidden(cudaErrorStreamCaptureUnsupported, &error) || bytes == 0)
		return error;
	if (bytes > memory_size - in_use)
		return emu_fail(cudaErrorMemoryAllocation);
	emu_count(&emu_counts::allocations);
	padded = (bytes + 2 * ALIGN - 1) / ALIGN * ALIGN; /* with a gap behind it */
	if ((size_t)(top - heap) + padded + PAGE > RANGE)
		emu_die("out of addresses");
	*out = top;
	top += padded;
	emu_heap_open(true);
	ASAN_UNPOISON_MEMORY_REGION(*out, bytes);
	if (!emu_huge)
		emu_fill(*out, bytes);
	ASAN_POISON_MEMORY_REGION((char *)*out + bytes, padded - bytes);
	emu_heap_open(false);
	emu_race_region(*out, bytes, EMU_FRESH);
	allocations[(char *)*out] = bytes;
	in_use += bytes;
	return cudaSuccess;
}

/* The whole pages of it, which hold 0 from then on. Where they begin and end; equal: there is none.
 */
static std::pair<char *, char *>
forget_pages(void *memory, size_t bytes)
{
	uintptr_t from = ((uintptr_t)memory + PAGE - 1) / PAGE * PAGE;
	uintptr_t to = ((uintptr_t)memory + bytes) / PAGE * PAGE;

	if (to <= from)
		return {(char *)memory, (char *)memory};
	madvise((void *)from, to - from, MADV_DONTNEED);
	return {(char *)from, (char *)to};
}

cudaError_t
cudaFree(void *memory)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);
	auto it = allocations.find((char *)memory);
	cudaError_t error;

	if (emu_refuses(EMU_FREE, "cudaFree", &error) || memory == nullptr ||
	    emu_forbidden(cudaErrorStreamCaptureUnsupported, &error))
		return error;
	if (it == allocations.end())
		return emu_fail(cudaErrorInvalidValue);
	emu_count(&emu_counts::allocations);
	emu_heap_open(true);
	ASAN_UNPOISON_MEMORY_REGION(memory, it->second);
	if (!emu_huge)
		emu_fill(memory, it->second);
	ASAN_POISON_MEMORY_REGION(memory, it->second);
	emu_race_region(memory, it->second, EMU_FREED);
	forget_pages(memory, it->second);
	emu_heap_open(false);
	in_use -= it->second;
	allocations.erase(it);
	return cudaSuccess;
}

cudaError_t
cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	cudaError_t error;

	if (emu_refuses(EMU_DEVICE, "cudaMemGetInfo", &error))
		return error;
	heap_begin();
	*total = memory_size;
	*free_bytes = memory_size - in_use;
	return cudaSuccess;
}

bool
emu_take(size_t bytes)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);

	heap_begin();
	if (bytes > memory_size - in_use)
		return false;
	in_use += bytes;
	return true;
}

void
emu_give(size_t bytes)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);

	in_use -= bytes;
}

static bool
side_right(const void *p, size_t bytes, bool device)
{
	return bytes == 0 || (device ? emu_inside(p, bytes) : !emu_is_device(p));
}

static void
copy_now(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
	emu_heap_use heap_is_open;

	if (bytes > 0)
		memmove(to, from, bytes);
	if (kind == cudaMemcpyHostToDevice)
		emu_copy_host((void *)from, bytes, false);
	if (kind == cudaMemcpyDeviceToHost)
		emu_copy_host(to, bytes, true);
	if (kind != cudaMemcpyDeviceToHost)
		emu_race_region(to, bytes, EMU_WRITTEN);
}

/* Memory of the host that is not pinned: such a copy waits. */
static bool
waits(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
	const void *host = kind == cudaMemcpyHostToDevice   ? from
			   : kind == cudaMemcpyDeviceToHost ? to
							    : nullptr;

	return host != nullptr && !emu_is_pinned(host, bytes);
}

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
	bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
	bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
	cudaError_t error;

	if (!side_right(to, bytes, to_device) || !side_right(from, bytes, from_device))
		return emu_fail(cudaErrorInvalidValue);
	if (emu_refuses(EMU_COPY, "cudaMemcpyAsync", &error))
		return error;
	if (emu_records(stream) && waits(to, from, bytes, kind) &&
	    emu_forbidden(cudaErrorStreamCaptureUnsupported, &error))
		return error;
	if (emu_recorded(
		stream, [=]() { copy_now(to, from, bytes, kind); }, &error))
		return emu_fail(error);
	copy_now(to, from, bytes, kind);
	return cudaSuccess;
}

static void
set_now(void *to, int value, size_t bytes)
{
	emu_heap_use heap_is_open;

	if (emu_huge && value == 0) {
		auto pages = forget_pages(to, bytes);

		memset(to, 0, pages.first - (char *)to);
		memset(pages.second, 0, (char *)to + bytes - pages.second);
	} else if (bytes > 0)
		memset(to, value, bytes);
	emu_race_region(to, bytes, EMU_WRITTEN);
}

cudaError_t
cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
	cudaError_t error;

	if (!side_right(to, bytes, true))
		return emu_fail(cudaErrorInvalidValue);
	if (emu_refuses(EMU_SET, "cudaMemsetAsync", &error))
		return error;
	if (emu_recorded(
		stream, [=]() { set_now(to, value, bytes); }, &error))
		return emu_fail(error);
	set_now(to, value, bytes);
	return cudaSuccess;
}
