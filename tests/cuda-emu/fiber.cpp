/*
 * Stacks and switching between them. Six pushes by hand: ucontext would make a system call for
 * each switch, and there are millions.
 */
#include "emu.h"

#include <sys/mman.h>

enum { STACK = 128 << 10, GUARD = 4096 };

emu_fiber emu_main_fiber;
static emu_fiber fibers[EMU_THREADS + 1];
static emu_fiber *idle[EMU_THREADS + 1];
static int idle_count;
static void (*fiber_body)(void);

extern "C" void emu_swap(void **save, void *sp);
asm(".text\n"
    ".globl emu_swap\n"
    "emu_swap:\n"
    "	pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
    "	movq %rsp,(%rdi)\n"
    "	movq %rsi,%rsp\n"
    "	popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp\n"
    "	ret\n");

static void
fiber_entry(void)
{
#ifdef EMU_ASAN
	__sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
	fiber_body();
}

void
emu_fibers_open(void (*entry)(void))
{
	if (idle_count > 0)
		return;
	fiber_body = entry;
	for (int i = 0; i <= EMU_THREADS; i++) {
		emu_fiber *f = &fibers[i];
		void **top;

		f->stack = (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (f->stack == MAP_FAILED)
			emu_die("no memory for the stacks of threads");
		mprotect(f->stack, GUARD, PROT_NONE);
		top = (void **)(f->stack + STACK);
		*--top = nullptr;
		*--top = (void *)fiber_entry;
		for (int r = 0; r < 6; r++)
			*--top = nullptr;
		f->sp = top;
		idle[idle_count++] = f;
	}
}

emu_fiber *
emu_fiber_get(void)
{
	return idle[--idle_count];
}

void
emu_fiber_put(emu_fiber *fiber)
{
	idle[idle_count++] = fiber;
}

emu_fiber *
emu_fiber_of(const void *at)
{
	for (emu_fiber *f = fibers; f <= &fibers[EMU_THREADS]; f++)
		if ((const char *)at >= f->stack && (const char *)at < f->stack + STACK)
			return f;
	return nullptr;
}

void
emu_fiber_switch(emu_fiber *from, emu_fiber *to)
{
#ifdef EMU_ASAN
	static const void *main_bottom;
	static size_t main_size;
	const void *bottom;
	size_t size;

	__sanitizer_start_switch_fiber(
	    &from->fake, to->stack ? to->stack : main_bottom, to->stack ? STACK : main_size);
	emu_swap(&from->sp, to->sp);
	__sanitizer_finish_switch_fiber(from->fake, &bottom, &size);
#else
	emu_swap(&from->sp, to->sp);
#endif
}
