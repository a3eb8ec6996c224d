#include "worker/probe.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/json_write.h"
#include "kernels/bf16.h"
#include "kernels/device.h"
#include "kernels/ops.h"
#include "kernels/repeat.h"
#include "worker/driver_nodes.h"
#include "worker/sandbox.h"

enum { ROWS = 17, OUTPUTS = 33, INPUTS = 65, DEVICES = 64, TIMES = 3 };
enum { REASON_MAX = sizeof(((struct refusal *)NULL)->text) };

/* Small integers: exact in bfloat16, and so are the sums in float32. */
static int
left(int row, int i)
{
	return (row * 3 + i) % 7 - 3;
}

static int
right(int output, int i)
{
	return (output + i * 2) % 5 - 2;
}

static int
added(int row, int output)
{
	return (row + output) % 3 - 1;
}

static size_t
wrong_elements(const float *out)
{
	size_t wrong = 0;

	for (int r = 0; r < ROWS; r++)
		for (int o = 0; o < OUTPUTS; o++) {
			int sum = added(r, o);

			for (int i = 0; i < INPUTS; i++)
				sum += left(r, i) * right(o, i);
			wrong += out[r * OUTPUTS + o] != (float)sum;
		}
	return wrong;
}

/* Areas of the device's memory. */
enum { X, W, MORE, PRODUCT, OUT, AREAS };

bool
probe_wants_graphs(void)
{
	const char *setting = getenv("STEPD_CUDA_GRAPHS");

	return setting == NULL || strcmp(setting, "off") != 0;
}

struct product {
	struct op_context *ops;
	void **memory; /* (AREAS) */
	struct op_matrix matrix;
};

/* The product, by the device's library, and something added by a kernel of ours. */
static enum op_status
compute(const void *argument)
{
	const struct product *p = argument;
	enum op_status status =
	    op_logits(p->ops, p->memory[PRODUCT], p->memory[X], &p->matrix, ROWS);

	if (status != OP_OK)
		return status;
	return op_add(p->ops, p->memory[OUT], p->memory[PRODUCT], p->memory[MORE], ROWS * OUTPUTS);
}

/* As it comes and, where passes are to be graphs, recorded and launched as one. */
static enum op_status
compute_again(const struct product *p, bool graphs)
{
	static const uint32_t start[1];
	const struct op_packing none = {.start = start};
	const uint64_t key = 0;
	enum op_status status = OP_OK;

	repeat_allow(p->ops, graphs ? SIZE_MAX : 0);
	for (int i = 0; i < (graphs ? TIMES : 1) && status == OP_OK; i++)
		status = repeat_run(p->ops, &key, 1, &none, compute, p);
	return status;
}

/* out (ROWS, OUTPUTS) = what is computed; memory (AREAS) is to be freed. */
static enum op_status
multiply(struct op_context *ops, float *out, void **memory)
{
	static uint16_t x[ROWS * INPUTS], w[OUTPUTS * INPUTS], more[ROWS * OUTPUTS];
	const size_t bytes = ROWS * OUTPUTS * sizeof(*out);
	const struct {
		const void *from;
		size_t bytes;
	} in[] = {{x, sizeof(x)}, {w, sizeof(w)}, {more, sizeof(more)}};
	struct product product = {.ops = ops,
	    .memory = memory,
	    .matrix = {.rows = OUTPUTS, .cols = INPUTS, .dtype = OP_BF16}};
	enum op_status status = OP_OK;

	for (int i = 0; i < ROWS * INPUTS; i++)
		x[i] = bf16_of_float((float)left(i / INPUTS, i % INPUTS));
	for (int i = 0; i < OUTPUTS * INPUTS; i++)
		w[i] = bf16_of_float((float)right(i / INPUTS, i % INPUTS));
	for (int i = 0; i < ROWS * OUTPUTS; i++)
		more[i] = bf16_of_float((float)added(i / OUTPUTS, i % OUTPUTS));
	for (int i = X; i <= MORE && status == OP_OK; i++) {
		status = op_alloc(ops, &memory[i], in[i].bytes);
		if (status == OP_OK)
			status = op_upload(ops, memory[i], in[i].from, in[i].bytes);
	}
	for (int i = PRODUCT; i <= OUT && status == OP_OK; i++)
		status = op_alloc(ops, &memory[i], bytes);
	product.matrix.data = memory[W];
	if (status == OP_OK)
		status = compute_again(&product, probe_wants_graphs());
	if (status == OP_OK)
		status = op_download(ops, out, memory[OUT], bytes);
	return status;
}

enum op_status
probe_device(int index, char *reason, size_t size)
{
	struct op_options options = {.compute = OP_BF16, .threads = 1, .device = index};
	static float out[ROWS * OUTPUTS];
	struct op_context *ops;
	void *memory[AREAS] = {NULL};
	enum op_status status = op_open(&ops, &options);
	size_t wrong = 0;

	*reason = '\0';
	if (status != OP_OK) {
		snprintf(reason, size, "%s", op_last_error(NULL));
		return status;
	}
	status = multiply(ops, out, memory);
	if (status != OP_OK)
		snprintf(reason, size, "%s", op_last_error(ops));
	else
		wrong = wrong_elements(out);
	if (wrong > 0) {
		snprintf(reason, size, "%zu of %d elements of a product are wrong", wrong,
		    ROWS * OUTPUTS);
		status = OP_DEVICE_FAULT;
	}
	for (int i = 0; i < AREAS; i++)
		op_free(ops, memory[i]);
	op_close(ops);
	return status;
}

static bool
is_cuda(void)
{
	return strcmp(device_backend(), "cuda") == 0;
}

/* One UUID, or NULL: an index, or several. */
static const char *
chosen_uuid(void)
{
	const char *uuid = getenv("CUDA_VISIBLE_DEVICES");

	if (uuid == NULL || strchr(uuid, ',') != NULL ||
	    (strncmp(uuid, "GPU-", 4) != 0 && strncmp(uuid, "MIG-", 4) != 0))
		return NULL;
	return uuid;
}

void
probe_choose_gpu(void)
{
	if (is_cuda())
		sandbox_for_gpu(&(struct driver_choice){chosen_uuid(), getenv("STEPD_GPU_BUS")});
}

struct probed {
	struct device_info info;
	bool described, held;
	char error[REASON_MAX]; /* "" = what was computed was right */
};

/* CUDA tells the UUID of a part of a GPU (MIG) as it tells that of a whole one. */
static void
name_part(struct device_info *info)
{
	const char *chosen = chosen_uuid();

	if (chosen != NULL && strcmp(chosen + 4, info->uuid + 4) == 0)
		memcpy(info->uuid, chosen, 4);
	else if (driver_nodes_is_part("", info->uuid, info->bus))
		memcpy(info->uuid, "MIG-", 4);
}

/* A session computes on it: all of its memory may be planned for. */
static bool
is_held(const char *uuid)
{
	const char *held = getenv("STEPD_GPUS_HELD");
	size_t len = strlen(uuid);

	while (held != NULL && *held != '\0') {
		size_t item = strcspn(held, ",");

		if (item == len && memcmp(held, uuid, len) == 0)
			return true;
		held += item + (held[item] == ',');
	}
	return false;
}

static void
probe_one(struct probed *p, int index)
{
	p->described = device_identify(&p->info, index) == OP_OK;
	if (p->described)
		name_part(&p->info);
	p->held = p->described && is_held(p->info.uuid);
	if (p->held) {
		snprintf(p->error, sizeof(p->error), "a session has it");
		return;
	}
	if (p->described && device_memory(&p->info, index) == OP_OK)
		probe_device(index, p->error, sizeof(p->error));
	else
		snprintf(p->error, sizeof(p->error), "%s", op_last_error(NULL));
}

static void
write_device(struct json_writer *w, const struct probed *p, int index)
{
	char text[32];

	json_write_object(w);
	json_put_int(w, "index", index);
	if (p->described) {
		json_put_string(w, "name", p->info.name);
		json_put_string(w, "uuid", p->info.uuid);
		json_put_string(w, "pci_bus_id", p->info.bus);
		json_put_uint(w, "memory_bytes", p->info.memory);
		json_put_uint(w, "memory_free_bytes", p->info.memory_free);
		snprintf(text, sizeof(text), "%d.%d", p->info.major, p->info.minor);
		json_put_string(w, "compute_capability", text);
		json_put_int(w, "driver", p->info.driver);
		json_put_int(w, "runtime", p->info.runtime);
	}
	json_put_bool(w, "held", p->held);
	json_put_bool(w, "verified", p->error[0] == '\0');
	json_put_string(w, "error", p->error[0] != '\0' ? p->error : NULL);
	json_write_object_end(w);
}

/* How many devices: of each, what it says of itself, and the product in the sandbox before it is
   closed and after. `error`: why there is none. */
static int
probe_all(struct probed *all, char error[REASON_MAX])
{
	struct refusal r = {.status = 503};
	bool holds;
	int count;

	probe_choose_gpu();
	if (is_cuda() &&
	    (sandbox_enter(-1, getenv("STEPD_SANDBOX"), getenv("STEPD_WORKER_USER")) != 0 ||
		sandbox_files(NULL, &r) != 0)) {
		snprintf(error, REASON_MAX, "%s", r.text);
		return 0;
	}
	count = device_count();
	snprintf(error, REASON_MAX, "%s", count == 0 ? op_last_error(NULL) : "");
	if (count > DEVICES)
		count = DEVICES;
	for (int i = 0; i < count; i++)
		probe_one(&all[i], i);
	holds = sandbox_close(&r) == 0;
	for (int i = 0; i < count; i++) {
		if (!holds)
			snprintf(all[i].error, sizeof(all[i].error), "%s", r.text);
		else if (all[i].error[0] == '\0')
			probe_device(i, all[i].error, sizeof(all[i].error));
	}
	return count;
}

int
probe_print(void)
{
	static struct probed all[DEVICES];
	char error[REASON_MAX];
	/* gVisor has the driver's nodes, and not that file. */
	bool loaded =
	    access("/proc/driver/nvidia/version", F_OK) == 0 || access("/dev/nvidiactl", F_OK) == 0;
	int count = probe_all(all, error);
	struct json_writer w;
	const char *text;

	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "backend", device_backend());
	json_put_string(&w, "sandbox", is_cuda() ? sandbox_text() : NULL);
	json_put_bool(&w, "driver_loaded", loaded);
	json_put_string(&w, "error", error[0] != '\0' ? error : NULL);
	json_write_key(&w, "devices");
	json_write_array(&w);
	for (int i = 0; i < count; i++)
		write_device(&w, &all[i], i);
	json_write_array_end(&w);
	json_write_object_end(&w);
	text = json_writer_text(&w, NULL);
	if (text != NULL)
		puts(text);
	json_writer_fini(&w);
	return text == NULL;
}
