#include "supervisor/status/event_ids.h"

#include <errno.h>
#include <stdlib.h>

#include "ipc/wire.h"
#include "supervisor/store/store.h"

enum { RECORD_VERSION = 1 };

static const char start_key[] = "start";

static int
get_start(uint64_t *start, const void *data, size_t len)
{
	struct wire_get r;
	int version;

	wire_get_init(&r, data, len);
	version = wire_get_version(&r, RECORD_VERSION);
	if (version < 0)
		return version;
	*start = wire_get_u64(&r);
	return wire_get_end(&r);
}

int
event_ids_init(struct event_ids *ids, struct store *store)
{
	uint64_t before = 0;
	size_t len;
	void *data;
	int error = store_get(store, STORE_META, start_key, sizeof(start_key) - 1, &data, &len);

	if (error == 0) {
		error = get_start(&before, data, len);
		free(data);
	}
	if (error != 0 && error != -ENOENT)
		return error;
	*ids = (struct event_ids){.start = before + 1, .last = (before + 1) * EVENTS_PER_START};
	return 0;
}

void
event_ids_keep(
    struct event_ids *ids, struct store *store, void (*done)(void *ctx, int error), void *ctx)
{
	uint8_t record[16];
	struct wire_put w;
	struct store_write write = {STORE_META, start_key, sizeof(start_key) - 1, record, 0};

	if (ids->kept || ids->keeping)
		return;
	wire_put_init(&w, record, sizeof(record));
	wire_put_u8(&w, RECORD_VERSION);
	wire_put_u64(&w, ids->start);
	write.len = w.len;
	ids->keeping = store_commit(store, &write, 1, done, ctx) == 0;
}

void
event_ids_kept(struct event_ids *ids, int error)
{
	ids->keeping = false;
	ids->kept = error == 0;
}
