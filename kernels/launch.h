/*
 * The two places where a kernel looks different to the GPU and to the emulation of tests/cuda-emu.
 *
 *	LAUNCH(kernel, grid, block, shared bytes, stream, arguments...)
 *
 * with a template's name in parentheses where it has a comma. DYN_SHARED(type, name) is the base of
 * the launch's dynamic shared memory; further arrays are cut from it by hand.
 *
 * What keeps a kernel runnable there: static __shared__ arrays are small and large tiles dynamic;
 * PTX is in ptx.h alone; shuffles with explicit masks, __syncwarp wherever lanes exchange through
 * memory, no return between barriers; no block waits for another one; no __CUDA_ARCH__, cooperative
 * groups, textures or device libraries; one stream. And what keeps it the same each time: no atomic
 * sums of floating-point numbers.
 */
#ifndef KERNELS_LAUNCH_H
#define KERNELS_LAUNCH_H

#include <cuda_runtime.h>

#ifndef CUDA_EMU
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                           \
	kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define DYN_SHARED(type, name)                                                                     \
	extern __shared__ __align__(128) unsigned char launch_dynamic_shared[];                    \
	type *name = reinterpret_cast<type *>(launch_dynamic_shared)
#endif

#endif
