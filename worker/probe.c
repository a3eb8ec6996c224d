#include "worker/probe.h"

#include <stdio.h>
#include <string.h>

#include "ipc/json_write.h"
#include "kernels/bf16.h"
#include "kernels/device.h"
#include "kernels/ops.h"

enum { ROWS = 17, OUTPUTS = 33, INPUTS = 65 };

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

static size_t
wrong_elements(const float *out)
{
	size_t wrong = 0;

	for (int r = 0; r < ROWS; r++)
		for (int o = 0; o < OUTPUTS; o++) {
			int sum = 0;

			for (int i = 0; i < INPUTS; i++)
				sum += left(r, i) * right(o, i);
			wrong += out[r * OUTPUTS + o] != (float)sum;
		}
	return wrong;
}

/* out (ROWS, OUTPUTS) = the product, by the device; *memory is to be freed. */
static enum op_status
multiply(struct op_context *ops, float *out, void **memory)
{
	static uint16_t x[ROWS * INPUTS], w[OUTPUTS * INPUTS];
	struct op_matrix matrix = {.rows = OUTPUTS, .cols = INPUTS, .dtype = OP_BF16};
	enum op_status status;

	for (int i = 0; i < ROWS * INPUTS; i++)
		x[i] = bf16_of_float((float)left(i / INPUTS, i % INPUTS));
	for (int i = 0; i < OUTPUTS * INPUTS; i++)
		w[i] = bf16_of_float((float)right(i / INPUTS, i % INPUTS));
	status = op_alloc(ops, &memory[0], sizeof(x));
	if (status == OP_OK)
		status = op_alloc(ops, &memory[1], sizeof(w));
	if (status == OP_OK)
		status = op_alloc(ops, &memory[2], ROWS * OUTPUTS * sizeof(*out));
	if (status == OP_OK)
		status = op_upload(ops, memory[0], x, sizeof(x));
	if (status == OP_OK)
		status = op_upload(ops, memory[1], w, sizeof(w));
	matrix.data = memory[1];
	if (status == OP_OK)
		status = op_linear(ops, memory[2], memory[0], &matrix, NULL, ROWS);
	if (status == OP_OK)
		status = op_download(ops, out, memory[2], ROWS * OUTPUTS * sizeof(*out));
	return status;
}

/* NULL, or why the device is not to be trusted: a view into `reason`. */
static const char *
verify(int index, char *reason, size_t size)
{
	struct op_options options = {.compute = OP_BF16, .threads = 1, .device = index};
	static float out[ROWS * OUTPUTS];
	struct op_context *ops;
	void *memory[3] = {NULL, NULL, NULL};
	enum op_status status = op_open(&ops, &options);
	size_t wrong = 0;

	if (status != OP_OK) {
		snprintf(reason, size, "%s", op_last_error(NULL));
		return reason;
	}
	status = multiply(ops, out, memory);
	if (status != OP_OK)
		snprintf(reason, size, "%s", op_last_error(ops));
	else
		wrong = wrong_elements(out);
	if (wrong > 0)
		snprintf(reason, size, "%zu of %d elements of a product are wrong", wrong,
		    ROWS * OUTPUTS);
	for (int i = 0; i < 3; i++)
		op_free(ops, memory[i]);
	op_close(ops);
	return status == OP_OK && wrong == 0 ? NULL : reason;
}

static void
write_device(struct json_writer *w, int index)
{
	struct device_info info;
	char text[512];
	const char *error = NULL;

	json_write_object(w);
	json_put_int(w, "index", index);
	if (device_describe(&info, index) == OP_OK) {
		json_put_string(w, "name", info.name);
		json_put_string(w, "uuid", info.uuid);
		json_put_uint(w, "memory_bytes", info.memory);
		json_put_uint(w, "memory_free_bytes", info.memory_free);
		snprintf(text, sizeof(text), "%d.%d", info.major, info.minor);
		json_put_string(w, "compute_capability", text);
		json_put_int(w, "driver", info.driver);
		json_put_int(w, "runtime", info.runtime);
		error = verify(index, text, sizeof(text));
	} else {
		snprintf(text, sizeof(text), "%s", op_last_error(NULL));
		error = text;
	}
	json_put_bool(w, "verified", error == NULL);
	json_put_string(w, "error", error);
	json_write_object_end(w);
}

int
probe_print(void)
{
	struct json_writer w;
	int count = device_count();
	const char *text;

	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "backend", device_backend());
	json_put_string(
	    &w, "error", count == 0 && op_last_error(NULL)[0] != '\0' ? op_last_error(NULL) : NULL);
	json_write_key(&w, "devices");
	json_write_array(&w);
	for (int i = 0; i < count; i++)
		write_device(&w, i);
	json_write_array_end(&w);
	json_write_object_end(&w);
	text = json_writer_text(&w, NULL);
	if (text != NULL)
		puts(text);
	json_writer_fini(&w);
	return text == NULL;
}
