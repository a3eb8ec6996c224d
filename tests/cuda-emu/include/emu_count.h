/* What a program has asked of the emulated runtime so far: for tests that link it. */
#ifndef CUDA_EMU_EMU_COUNT_H
#define CUDA_EMU_EMU_COUNT_H

#ifdef __cplusplus
extern "C" {
#endif

struct emu_counts {
	unsigned long allocations; /* of device or pinned memory, and what was given back */
	unsigned long
	    waits; /* for the device: by name, or in a copy from or to memory not pinned */
};

struct emu_counts emu_counted(void);

#ifdef __cplusplus
}
#endif

#endif
