/*
 * What a kernel sees of the device when it runs on the CPU: built-in variables, the launch,
 * barriers, warp operations, atomics, intrinsics.
 */
#ifndef CUDA_EMU_DEVICE_H
#define CUDA_EMU_DEVICE_H

#include <math.h>
#include <string.h>

#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __grid_constant__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
/* Blocks run one after another, so a static array is storage for each block. The dot in the name
   keeps AddressSanitizer's redzones; program.cpp finds the section in the ELF file. */
#ifdef __clang__
#define __shared__ static __attribute__((section(".emu_shared")))
#else
#define __shared__ static /* g++: no section on a template's statics, so no poison */
#endif
#define EMU_UNCHECKED __attribute__((no_sanitize("thread"), no_sanitize("address")))

struct alignas(8) float2 {
	float x, y;
};
struct alignas(16) float4 {
	float x, y, z, w;
};
struct alignas(8) uint2 {
	unsigned x, y;
};
struct alignas(16) uint4 {
	unsigned x, y, z, w;
};

/* Rewritten at each switch of threads. */
struct emu_index {
	unsigned x, y, z;
};
extern emu_index emu_thread_index, emu_block_index, emu_block_size, emu_grid_size;
#define threadIdx emu_thread_index
#define blockIdx emu_block_index
#define blockDim emu_block_size
#define gridDim emu_grid_size

/* One row for each operation of a warp. */
enum emu_op {
	EMU_SYNCWARP,
	EMU_SHFL_IDX,
	EMU_SHFL_XOR,
	EMU_SHFL_UP,
	EMU_SHFL_DOWN,
	EMU_BALLOT,
	EMU_CALL,
};
typedef void emu_warp_function(void *const args[32], unsigned lanes);
typedef void emu_trampoline(void *context);

extern "C" {
void emu_barrier(int line);
uint64_t emu_warp(emu_op op, unsigned mask, uint64_t value, int argument, int width, int line);
/* The lane that arrives last runs `function` over the arguments of all lanes. */
void emu_warp_call(emu_warp_function *function, void *argument, unsigned mask, int line);
/* context: `bytes` that are copied where the stream records. */
void emu_launch(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared,
    cudaStream_t stream, emu_trampoline *run, void *context, size_t bytes);
void *emu_dynamic_shared(void);
void emu_check_pointer(const char *kernel, const void *pointer);
void emu_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void emu_atomic(void *address, size_t bytes); /* tells the race checker */
/* Ends the program unless it is in shared memory. */
void emu_check_shared(const void *p, size_t bytes, const char *what);
/* cp.async: the bytes arrive at the wait that must cover them, not before. */
void emu_pipe_copy(void *to, const void *from, size_t bytes, size_t zeros);
void emu_pipe_commit(void);
void emu_pipe_wait(int keep);
}

template <class T>
inline void
emu_check_argument(const char *kernel, const T &value)
{
	if constexpr (std::is_pointer_v<T>)
		emu_check_pointer(kernel, (const void *)value);
	else
		(void)kernel, (void)value;
}

/* Arguments are copied by value, as a launch does. */
template <class... P, class... A>
inline void
emu_launch_with(const char *name, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
    void (*kernel)(P...), A &&...arguments)
{
	struct call {
		void (*kernel)(P...);
		std::tuple<std::decay_t<P>...> arguments;
	} c{kernel, {static_cast<P>(arguments)...}};

	static_assert(sizeof...(P) == sizeof...(A), "LAUNCH: wrong number of arguments");
	static_assert((std::is_trivially_copyable_v<std::decay_t<P>> && ...), "LAUNCH: arguments");
	std::apply([&](auto &...v) { (emu_check_argument(name, v), ...); }, c.arguments);
	emu_launch(
	    name, (const void *)kernel, grid, block, shared, stream,
	    [](void *p) {
		    call *one = (call *)p;

		    std::apply(one->kernel, one->arguments);
	    },
	    &c, sizeof(c));
}
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                           \
	emu_launch_with(#kernel, (grid), (block), (shared), (stream), kernel, __VA_ARGS__)
#define DYN_SHARED(type, name) type *name = reinterpret_cast<type *>(emu_dynamic_shared())

#define __syncthreads() emu_barrier(__LINE__)
static inline void
emu_syncwarp(int line, unsigned mask = 0xffffffffu)
{
	emu_warp(EMU_SYNCWARP, mask, 0, 0, 32, line);
}
#define __syncwarp(...) emu_syncwarp(__LINE__, ##__VA_ARGS__)

template <class T>
inline T
emu_shuffle(emu_op op, int line, unsigned mask, T value, int argument, int width = 32)
{
	uint64_t bits = 0;
	T result;

	static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "type of a shuffle");
	memcpy(&bits, &value, sizeof(value));
	bits = emu_warp(op, mask, bits, argument, width, line);
	memcpy(&result, &bits, sizeof(result));
	return result;
}
#define __shfl_sync(m, v, ...) emu_shuffle(EMU_SHFL_IDX, __LINE__, (m), (v), __VA_ARGS__)
#define __shfl_xor_sync(m, v, ...) emu_shuffle(EMU_SHFL_XOR, __LINE__, (m), (v), __VA_ARGS__)
#define __shfl_up_sync(m, v, ...) emu_shuffle(EMU_SHFL_UP, __LINE__, (m), (v), __VA_ARGS__)
#define __shfl_down_sync(m, v, ...) emu_shuffle(EMU_SHFL_DOWN, __LINE__, (m), (v), __VA_ARGS__)
#define __ballot_sync(m, p) ((unsigned)emu_warp(EMU_BALLOT, (m), !!(p), 0, 32, __LINE__))

/* One thread of the machine runs all of them, so plain arithmetic is atomic. */
template <class T>
EMU_UNCHECKED inline T
atomicAdd(T *address, T value)
{
	T old = *address;

	emu_atomic(address, sizeof(T));
	*address = (T)(old + value);
	return old;
}
template <class T>
EMU_UNCHECKED inline T
atomicMin(T *address, T value)
{
	T old = *address;

	emu_atomic(address, sizeof(T));
	*address = value < old ? value : old;
	return old;
}

static inline float
rsqrtf(float x)
{
	return 1.0f / sqrtf(x);
}
/* Of denominators beyond 2^126 it makes 0. */
static inline float
__fdividef(float a, float b)
{
	return fabsf(b) > 0x1p126f ? a * 0.0f : a / b;
}
/* Rounded by itself, never contracted with another operation. */
static inline float
__fmul_rn(float a, float b)
{
	volatile float x = a * b;

	return x;
}
static inline float
__fadd_rn(float a, float b)
{
	volatile float x = a + b;

	return x;
}
static inline float
__fsub_rn(float a, float b)
{
	volatile float x = a - b;

	return x;
}
#define __expf(x) expf(x) /* glibc declares __expf and __logf itself */
#define __logf(x) logf(x)
static inline float
__uint_as_float(unsigned bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}
static inline unsigned
__float_as_uint(float x)
{
	unsigned bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}
template <class T>
inline T
min(T a, T b)
{
	return b < a ? b : a;
}
template <class T>
inline T
max(T a, T b)
{
	return a < b ? b : a;
}

#endif
