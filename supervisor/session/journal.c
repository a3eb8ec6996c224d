#include "supervisor/session/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/wire.h"
#include "supervisor/store/store.h"

void
journal_key(uint8_t key[JOURNAL_KEY_SIZE], const char *id, uint64_t step)
{
	memcpy(key, id, JOURNAL_KEY_SIZE - 8);
	for (int i = 0; i < 8; i++)
		key[JOURNAL_KEY_SIZE - 8 + i] = (uint8_t)(step >> (8 * (7 - i)));
}

long
journal_step_put(const struct journal_step *step, void *storage, size_t size)
{
	struct wire_put w;

	wire_put_init(&w, storage, size);
	wire_put_u8(&w, JOURNAL_VERSION);
	wire_put_u8(&w, step->stage);
	wire_put_i64(&w, step->at);
	wire_put_f64(&w, step->learning_rate);
	wire_put_bytes(&w, step->ids, step->ids_len);
	wire_put_f64(&w, step->loss);
	wire_put_f64(&w, step->gradient_norm);
	wire_put_u64(&w, step->input_tokens);
	wire_put_u64(&w, step->supervised_tokens);
	wire_put_bytes(&w, step->response, sizeof(step->response));
	return wire_put_end(&w);
}

int
journal_step_get(struct journal_step *step, const void *data, size_t len)
{
	struct wire_get r;
	int version;

	memset(step, 0, sizeof(*step));
	wire_get_init(&r, data, len);
	version = wire_get_version(&r, JOURNAL_VERSION);
	if (version < 0)
		return version;
	step->stage = wire_get_u8(&r);
	step->at = wire_get_i64(&r);
	step->learning_rate = wire_get_f64(&r);
	step->ids = wire_get_bytes(&r, &step->ids_len);
	step->loss = wire_get_f64(&r);
	step->gradient_norm = wire_get_f64(&r);
	step->input_tokens = wire_get_u64(&r);
	step->supervised_tokens = wire_get_u64(&r);
	wire_get_exactly(&r, step->response, sizeof(step->response));
	if (step->stage != JOURNAL_INTENDED && step->stage != JOURNAL_DONE)
		return -EBADMSG;
	return wire_get_end(&r);
}

int
journal_read(
    struct store *store, const char *id, uint64_t number, struct journal_step *step, void **data)
{
	uint8_t key[JOURNAL_KEY_SIZE];
	size_t len;
	int error;

	journal_key(key, id, number);
	error = store_get(store, STORE_JOURNAL, key, sizeof(key), data, &len);
	if (error == 0)
		error = journal_step_get(step, *data, len);
	if (error == 0 && step->stage != JOURNAL_DONE)
		error = -EBADMSG;
	if (error != 0) {
		free(*data);
		*data = NULL;
	}
	return error;
}
