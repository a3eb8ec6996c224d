#include "supervisor/api/operation_record.h"

#include <errno.h>
#include <string.h>

#include "ipc/wire.h"

size_t
operation_record_size(const struct operation_record *record)
{
	return 256 + strlen(record->call) + strlen(record->session_id) + strlen(record->key) +
	       strlen(record->headers) + record->ids_len + record->body_len;
}

long
operation_record_put(const struct operation_record *record, void *storage, size_t size)
{
	struct wire_put w;

	wire_put_init(&w, storage, size);
	wire_put_u8(&w, OPERATION_RECORD_VERSION);
	wire_put_u8(&w, record->stage);
	wire_put_u8(&w, record->kind);
	wire_put_u64(&w, record->number);
	wire_put_i64(&w, record->at);
	wire_put_string(&w, record->call);
	wire_put_string(&w, record->session_id);
	wire_put_string(&w, record->key);
	wire_put_bytes(&w, record->digest, sizeof(record->digest));
	wire_put_f64(&w, record->learning_rate);
	wire_put_u8(&w, record->force);
	wire_put_bytes(&w, record->ids, record->ids_len);
	wire_put_u32(&w, record->status);
	wire_put_string(&w, record->headers);
	wire_put_u8(&w, record->has_body);
	wire_put_bytes(&w, record->body, record->body_len);
	return wire_put_end(&w);
}

int
operation_record_get(struct operation_record *record, const void *data, size_t len)
{
	struct wire_get r;
	int version;

	memset(record, 0, sizeof(*record));
	wire_get_init(&r, data, len);
	version = wire_get_version(&r, OPERATION_RECORD_VERSION);
	if (version < 0)
		return version;
	record->stage = wire_get_u8(&r);
	record->kind = wire_get_u8(&r);
	record->number = wire_get_u64(&r);
	record->at = wire_get_i64(&r);
	record->call = wire_get_string(&r);
	record->session_id = wire_get_string(&r);
	record->key = wire_get_string(&r);
	wire_get_exactly(&r, record->digest, sizeof(record->digest));
	record->learning_rate = wire_get_f64(&r);
	record->force = wire_get_bool(&r);
	record->ids = wire_get_bytes(&r, &record->ids_len);
	record->status = wire_get_u32(&r);
	record->headers = wire_get_string(&r);
	record->has_body = wire_get_bool(&r);
	record->body = wire_get_bytes(&r, &record->body_len);
	if (wire_get_end(&r) != 0 ||
	    (record->stage != OPERATION_BEGUN && record->stage != OPERATION_ANSWERED))
		return -EBADMSG;
	return 0;
}
