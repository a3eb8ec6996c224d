#include "supervisor/session/kept_answer.h"

#include <errno.h>
#include <string.h>

#include "ipc/wire.h"

enum { ID_LEN = 32 };

size_t
kept_answer_key(uint8_t out[KEPT_KEY_MAX], const char *id, const char *key)
{
	size_t len = strnlen(key, IDEMPOTENCY_KEY_MAX);

	memcpy(out, id, ID_LEN);
	memcpy(out + ID_LEN, key, len);
	return ID_LEN + len;
}

long
kept_answer_put(const struct kept_answer *answer, void *storage)
{
	struct wire_put w;

	wire_put_init(&w, storage, KEPT_ANSWER_MAX);
	wire_put_u8(&w, KEPT_VERSION);
	wire_put_u8(&w, answer->kind);
	wire_put_bytes(&w, answer->digest, sizeof(answer->digest));
	wire_put_u64(&w, answer->step);
	wire_put_i64(&w, answer->at);
	wire_put_bytes(&w, answer->json, answer->json_len);
	return wire_put_end(&w);
}

int
kept_answer_get(struct kept_answer *answer, const void *data, size_t len)
{
	struct wire_get r;
	int version;

	memset(answer, 0, sizeof(*answer));
	wire_get_init(&r, data, len);
	version = wire_get_version(&r, KEPT_VERSION);
	if (version < 0)
		return version;
	answer->kind = wire_get_u8(&r);
	wire_get_exactly(&r, answer->digest, sizeof(answer->digest));
	answer->step = wire_get_u64(&r);
	answer->at = wire_get_i64(&r);
	answer->json = wire_get_bytes(&r, &answer->json_len);
	return answer->json_len > KEPT_JSON_MAX ? -EBADMSG : wire_get_end(&r);
}
