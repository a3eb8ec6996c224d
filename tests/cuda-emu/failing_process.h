/*
 * Processes in which a trainer is opened, trained, evaluated, asked to generate, saved or loaded
 * while one of its CUDA calls fails (fail.h), and what came of it. Each has a copy of one trainer.
 */
#ifndef CUDA_EMU_FAILING_PROCESS_H
#define CUDA_EMU_FAILING_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "ipc/refusal.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "tests/cuda-emu/fail.h"

enum { OPERATIONS = 7, LATE = 1 << 16 };

struct operation {
	const char *name;
	int (*run)(uint64_t *given, struct refusal *r); /* 0 with *given, or -1 with *r */
};
extern const struct operation process_operations[OPERATIONS];

struct run {
	const struct operation *operation;
	uint32_t what, nth, error; /* what: a class; EMU_NOTHING: undisturbed; error | LATE */
};

struct outcome {
	int rc, again;	/* of the operation, and of the same once more where it failed */
	uint64_t given; /* digest of what it gave */
	uint64_t left;	/* and of what the trainer holds then */
	int unreadable; /* it could not be read */
	enum device_fault fault;
	size_t memory; /* of the device, in use afterwards */
	unsigned status;
	char text[1000], failure[256];
};

/* The memory shared with all processes; false where there is none. */
bool process_init(void);
/* The trainer that they have copies of, after its first step, its count set to 0. */
void process_trainer_open(enum op_dtype compute);
void process_trainer_close(void);

struct outcome process_run(const struct run *run);
/* Undisturbed, and every call noted in the page. */
struct outcome process_note(const struct operation *operation);
/* As the last process left it; a view, valid until the next one. */
const struct emu_fail_page *process_page(void);

/* FNV-1a of more bytes; DIGEST_BASIS before the first. */
#define DIGEST_BASIS 0x811c9dc5u
uint64_t process_digest(uint64_t hash, const void *data, size_t bytes);

#endif
