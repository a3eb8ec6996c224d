/* The adapter of two tensors whose artifacts are fuzzed, and bytes as a file. */
#ifndef TESTS_FUZZ_FUZZ_ADAPTER_H
#define TESTS_FUZZ_FUZZ_ADAPTER_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/train/adapter.h"
#include "worker/artifact/state.h"

#define FUZZ_MODULE "base_model.model.model.layers.0.mlp.up_proj"

static struct adapter_tensor fuzz_tensors[] = {
    {FUZZ_MODULE ".lora_A.weight", 2, 3, 0}, {FUZZ_MODULE ".lora_B.weight", 4, 2, 6}};

static const struct adapter fuzz_adapter = {.tensors = fuzz_tensors,
    .count = 2,
    .size = 14,
    .rank = 2,
    .alpha = 4,
    .modules = 1,
    .targets = {"up_proj"},
    .target_count = 1};

static const struct state fuzz_state = {.identity = {.base_model = "m",
					    .model_revision = "",
					    .base_sha256 = "ab",
					    .rank = 2,
					    .alpha = 4,
					    .seed = 1,
					    .build = "1"},
    .weight_decay = 0.01,
    .beta1 = 0.9,
    .beta2 = 0.999,
    .epsilon = 1e-8,
    .compute = "f32",
    .step = 1,
    .loss = 2};

static inline int
fuzz_file(const void *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || (size != 0 && write(fd, data, size) != (ssize_t)size))
		abort();
	return fd;
}

#endif
