/*
 * What the host does beside the device: pinned memory, events, waiting.
 *
 * A copy is on its way until somebody waits for it: what it writes to the host is NaN until then,
 * and what it reads there may not change. One from or to memory that is not pinned may wait for
 * itself and for all before it ("might be synchronous", the runtime's manual has it): it is counted
 * as a wait, and nothing may rely on that.
 */
#include "emu.h"

#include <deque>
#include <map>

#include "emu_count.h"

struct emu_event {
	unsigned long copies; /* that were begun before it */
	bool recorded;	      /* last, by a stream that records: it never happens */
};

struct copy {
	char *host;
	std::vector<char> bytes;
	bool to_host, is_pinned;
};

static std::map<char *, size_t> pinned;
static std::deque<copy> on_their_way;
static unsigned long begun; /* copies, in all */
static emu_counts counts;

void
emu_count(unsigned long emu_counts::*what)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);

	(counts.*what)++;
}

emu_counts
emu_counted(void)
{
	return counts;
}

bool
emu_is_pinned(const void *p, size_t bytes)
{
	auto it = pinned.upper_bound((char *)p);

	if (it == pinned.begin())
		return false;
	--it;
	return (const char *)p + bytes <= it->first + it->second;
}

/* The first `count` of all copies are done. */
static void
arrive(unsigned long count)
{
	while (!on_their_way.empty() && begun - on_their_way.size() < count) {
		copy &c = on_their_way.front();

		if (c.host == nullptr)
			; /* given up */
		else if (c.to_host)
			memcpy(c.host, c.bytes.data(), c.bytes.size());
		else if (memcmp(c.host, c.bytes.data(), c.bytes.size()) != 0)
			emu_die("memory was written while a copy read it");
		on_their_way.pop_front();
	}
}

void
emu_copy_host(void *host, size_t bytes, bool to_host)
{
	if (bytes == 0)
		return;
	if (!emu_is_pinned(host, bytes))
		emu_count(&emu_counts::waits);
	on_their_way.push_back({(char *)host, {(char *)host, (char *)host + bytes}, to_host,
	    emu_is_pinned(host, bytes)});
	begun++;
	if (to_host)
		memset(host, 0xff, bytes);
}

/* A wait that fails: of memory that is not pinned the host need not know that a copy uses it. */
static void
give_up(void)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);

	for (copy &c : on_their_way)
		if (!c.is_pinned)
			c.host = nullptr;
}

void
emu_wait_for_all(void)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);

	emu_count(&emu_counts::waits);
	arrive(begun);
}

cudaError_t
cudaMallocHost(void **out, size_t bytes)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);
	cudaError_t error;

	*out = nullptr;
	if (emu_refuses(EMU_HOST, "cudaMallocHost", &error) ||
	    emu_forbidden(cudaErrorStreamCaptureUnsupported, &error))
		return error;
	emu_count(&emu_counts::allocations);
	*out = malloc(bytes + 1);
	if (*out == nullptr)
		return emu_fail(cudaErrorMemoryAllocation);
	pinned[(char *)*out] = bytes;
	return cudaSuccess;
}

cudaError_t
cudaFreeHost(void *memory)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);
	cudaError_t error;

	if (emu_refuses(EMU_HOST, "cudaFreeHost", &error) || memory == nullptr ||
	    emu_forbidden(cudaErrorStreamCaptureUnsupported, &error))
		return error;
	if (pinned.count((char *)memory) == 0)
		return emu_fail(cudaErrorInvalidValue);
	emu_count(&emu_counts::allocations);
	for (const copy &c : on_their_way)
		if (c.host != nullptr && c.host >= (char *)memory &&
		    c.host < (char *)memory + pinned[(char *)memory])
			emu_die("pinned memory is freed while a copy may still use it");
	pinned.erase((char *)memory);
	free(memory);
	return cudaSuccess;
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
	cudaError_t error;

	(void)flags;
	*out = nullptr;
	if (emu_refuses(EMU_STREAM, "cudaEventCreateWithFlags", &error))
		return error;
	*out = new emu_event();
	return cudaSuccess;
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
	cudaError_t error;

	if (emu_refuses(EMU_STREAM, "cudaEventDestroy", &error))
		return error;
	delete event;
	return cudaSuccess;
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);

	cudaError_t error;

	if (emu_refuses(EMU_STREAM, "cudaEventRecord", &error))
		return error;
	event->recorded = emu_records(stream);
	event->copies = begun;
	return cudaSuccess;
}

/* Of what is done already nobody waits: only what is on its way counts. */
cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
	std::lock_guard<std::recursive_mutex> guard(emu_lock);

	cudaError_t error;

	if (emu_refuses(EMU_SYNC, "cudaEventSynchronize", &error) ||
	    emu_forbidden(
		event->recorded ? cudaErrorCapturedEvent : cudaErrorStreamCaptureUnsupported,
		&error))
		return error;
	if (event->recorded)
		return emu_fail(cudaErrorCapturedEvent);
	if (begun - on_their_way.size() < event->copies)
		emu_count(&emu_counts::waits);
	arrive(event->copies);
	return cudaSuccess;
}

cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
	cudaError_t error;

	if (emu_refuses(EMU_SYNC, "cudaStreamSynchronize", &error) ||
	    (emu_records(stream) && emu_forbidden(cudaErrorStreamCaptureUnsupported, &error))) {
		give_up();
		return error;
	}
	emu_wait_for_all();
	return cudaSuccess;
}
