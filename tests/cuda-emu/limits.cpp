/*
 * What a launch may take of a device. EMU_ARCH=80|86|89|90 is which one it is: its shared memory
 * and compute capability (without it: 8.0, with the shared memory of 9.0). EMU_RESOURCES=FILE has
 * what ptxas said of each kernel, lines of resources.txt, of which those of that architecture count
 * (of 9.0 without it): registers, and static shared memory, whose sum with the dynamic is limited.
 */
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>

#include <map>

enum { SHARED_DEFAULT = 48 << 10, REGISTERS = 65536 /* of a block */ };

struct resources {
	unsigned registers, shared;
};

int emu_capability = 80;
size_t emu_shared_most = 232448;
static std::map<std::string, resources> table;	/* by the kernel's name */
static std::map<const void *, resources> known; /* by its address */
static std::map<const void *, size_t> opted;	/* kernels that asked for more shared memory */

static void
read_table(const char *path, const char *arch)
{
	FILE *file = fopen(path, "r");
	char line[512], name[256], of[16];
	resources r;

	if (file == nullptr)
		emu_die("EMU_RESOURCES=%s", path);
	while (fgets(line, sizeof(line), file) != nullptr)
		if (sscanf(line, "%255s sm_%15s %u %u", name, of, &r.registers, &r.shared) == 4 &&
		    strcmp(of, arch) == 0)
			table[name] = r;
	fclose(file);
}

void
emu_limits_open(void)
{
	static const struct {
		const char *name;
		size_t shared; /* of a block, at most: CUDA C++ Programming Guide, capabilities */
	} archs[] = {{"80", 163 << 10}, {"86", 99 << 10}, {"89", 99 << 10}, {"90", 227 << 10}};
	const char *arch = getenv("EMU_ARCH"), *path = getenv("EMU_RESOURCES");

	for (const auto &a : archs)
		if (arch != nullptr && strcmp(arch, a.name) == 0) {
			emu_capability = atoi(arch);
			emu_shared_most = a.shared;
		}
	if (arch != nullptr && emu_capability != atoi(arch))
		emu_die("EMU_ARCH=%s", arch);
	if (path != nullptr)
		read_table(path, arch != nullptr ? arch : "90");
}

/* Zeros for a kernel that the table does not have. */
static resources
resources_of(const void *kernel)
{
	auto it = known.find(kernel);

	if (table.empty())
		return {};
	if (it == known.end()) {
		auto row = table.find(emu_function_name(kernel));

		it = known.insert({kernel, row == table.end() ? resources{} : row->second}).first;
	}
	return it->second;
}

cudaError_t
cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value)
{
	cudaError_t error;

	emu_open();
	if (emu_refuses(EMU_DEVICE, "cudaFuncSetAttribute", &error))
		return error;
	if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
	    (size_t)value + resources_of(kernel).shared > emu_shared_most)
		return emu_fail(cudaErrorInvalidValue);
	opted[kernel] = (size_t)value;
	return cudaSuccess;
}

/* Registers are given to four warps at once, 8 to each of their threads. */
static size_t
registers(size_t threads, unsigned of_one)
{
	return (threads + 127) / 128 * 128 * ((of_one + 7) / 8 * 8);
}

cudaError_t
emu_check_launch(const void *kernel, dim3 grid, dim3 block, size_t shared)
{
	size_t threads = (size_t)block.x * block.y * block.z;
	resources takes = resources_of(kernel);
	size_t most = opted.count(kernel) ? opted[kernel] : SHARED_DEFAULT - takes.shared;

	if (threads == 0 || threads > EMU_THREADS || block.z > 64)
		return cudaErrorInvalidConfiguration;
	if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 ||
	    grid.x > 2147483647u)
		return cudaErrorInvalidConfiguration;
	if (registers(threads, takes.registers) > REGISTERS)
		return cudaErrorLaunchOutOfResources;
	return shared > most ? cudaErrorInvalidValue : cudaSuccess;
}
