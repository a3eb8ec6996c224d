/*
 * What the files of the emulation share.
 *
 * One fiber for each CUDA thread of a block, one block after another, all on one thread of the
 * machine: fiber.cpp switches, block.cpp decides who runs, warp.cpp and pipe.cpp are the operations
 * of a warp, launch.cpp runs a grid within limits.cpp, memory.cpp owns the device's memory,
 * host.cpp what the host shares with it and waits for, graph.cpp records, cublas.cpp multiplies,
 * fail.cpp makes calls fail, program.cpp reads the program's own file, race.cpp (linked in the race
 * build only) sees every access.
 */
#ifndef CUDA_EMU_EMU_H
#define CUDA_EMU_EMU_H

#include <cuda_runtime.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "fail.h"

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define EMU_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { EMU_THREADS = 1024 }; /* of a block, at most */

/* fiber.cpp */
struct emu_fiber {
	void *sp;
	char *stack; /* NULL: the machine's own thread */
	void *fake;  /* AddressSanitizer's */
};
extern emu_fiber emu_main_fiber;
void emu_fibers_open(void (*entry)(void));
emu_fiber *emu_fiber_get(void);		 /* an idle one; runs entry when it is switched to */
void emu_fiber_put(emu_fiber *fiber);	 /* idle again */
emu_fiber *emu_fiber_of(const void *at); /* whose stack holds the address */
void emu_fiber_switch(emu_fiber *from, emu_fiber *to);

/* block.cpp */
enum emu_state : uint8_t { EMU_READY, EMU_RUNS, EMU_AT_BARRIER, EMU_AT_WARP, EMU_DONE };

struct emu_copy { /* of cp.async; to = from, then zeros */
	void *to;
	const void *from;
	size_t bytes, zeros;
};

struct emu_thread {
	emu_state state;
	emu_fiber *fiber; /* NULL: not started */
	emu_index index;
	int line; /* where it waits */
	/* what it brought to a warp operation, and what it gets from it */
	emu_op op;
	int argument, width;
	unsigned mask;
	uint64_t value, result;
	emu_warp_function *function;
	void *call;
	std::vector<std::vector<emu_copy>> *groups; /* of cp.async, committed */
	std::vector<emu_copy> *open;
};

struct emu_block {
	int threads, live, current;
	unsigned index, barrier_epoch;
	emu_trampoline *run;
	void *context;
	emu_thread thread[EMU_THREADS];
};
extern emu_block emu_now;
void emu_block_run(unsigned index, int threads, emu_trampoline *run, void *context);
void emu_ready(int thread);
void emu_wait(void); /* until somebody makes the current thread ready */

/* warp.cpp */
void emu_warp_begin(int threads);
void emu_warp_leave(int thread); /* returned: the others wait for it no longer */

/* launch.cpp */
extern const char *emu_kernel;
extern int emu_seed;  /* order of threads and blocks: 0 up, 1 down, else pseudo-random */
extern bool emu_huge; /* EMU_HUGE: launch.cpp */
unsigned emu_random(unsigned n);
void emu_open(void);

/* memory.cpp */
void emu_fill(void *memory, size_t bytes); /* with 0xff: NaN, -1 */
bool emu_is_device(const void *p);
bool emu_inside(const void *p, size_t bytes); /* one allocation holds it all */
void emu_heap_open(bool open);
bool emu_take(size_t bytes); /* for the driver, where so many are free */
void emu_give(size_t bytes);
extern std::recursive_mutex emu_lock;
/* The heap is readable in this scope, for one thread of the machine at a time. */
struct emu_heap_use {
	emu_heap_use()
	{
		emu_lock.lock();
		emu_heap_open(true);
	}
	~emu_heap_use()
	{
		emu_heap_open(false);
		emu_lock.unlock();
	}
};

/* host.cpp */
struct emu_counts;
void emu_count(unsigned long emu_counts::*what);
void emu_copy_host(void *host, size_t bytes, bool to_host); /* done as if at once: it was not */
void emu_wait_for_all(void);
bool emu_is_pinned(const void *p, size_t bytes);

/* graph.cpp */
typedef std::function<void(void)> emu_node;
cudaStream_t emu_stream_new(void);
void emu_stream_free(cudaStream_t stream);
bool emu_records(cudaStream_t stream);
/* Whether the stream records: the node is what will be done then, and *error what the call returns.
 */
bool emu_recorded(cudaStream_t stream, emu_node node, cudaError_t *error);
/* Whether this thread records, which does not allow the call: *error = why, and the recording is
   spoilt. */
bool emu_forbidden(cudaError_t why, cudaError_t *error);

/* fail.cpp: whether a call is not to be done, but to return *error, which may be success. */
bool emu_refuses(emu_class c, const char *name, cudaError_t *error);
cudaError_t emu_fail(cudaError_t error); /* remembers it for cudaGetLastError */

/* limits.cpp */
extern size_t emu_shared_most; /* bytes of a block */
extern int emu_capability;     /* 80: 8.0 */
void emu_limits_open(void);
cudaError_t emu_check_launch(const void *kernel, dim3 grid, dim3 block, size_t shared);

/* program.cpp */
void emu_shared_section(char **from, char **to); /* all static __shared__ arrays of the program */
std::string emu_function_name(const void *function); /* `kernel<types>`; "": it is none */

enum emu_access {
	EMU_READ,
	EMU_WRITE,
	EMU_WRITE_LATER, /* begins now, and nobody may look until the same thread's EMU_WRITE */
};

/* race.cpp; empty where it is not linked. */
enum emu_region {
	EMU_SHARED,	 /* begins: nothing written */
	EMU_SHARED_PAST, /* the end of this launch's dynamic shared memory */
	EMU_FRESH,	 /* allocated, not written */
	EMU_WRITTEN,
	EMU_FREED,
};
extern "C" {
void emu_race_segment(unsigned block, unsigned thread, unsigned barrier);
void emu_race_syncwarp(unsigned first, unsigned lanes); /* of the warp of thread `first` */
void emu_race_launch(const char *kernel, bool begin);
void emu_race_region(void *memory, size_t bytes, emu_region region);
void emu_race_access(void *memory, size_t bytes, emu_access how);
char *emu_heap_base(size_t *bytes);
}

#endif
