/* The record of an operation: every field comes back, nothing that is cut, longer or newer is
 * taken.
 */
#include <errno.h>
#include <string.h>

#include "supervisor/api/operation_record.h"
#include "tests/unit/test.h"

static const char call[] = "POST /v1/sessions/{id}/batches:train";
static const char session[] = "0123456789abcdef0123456789abcdef";

static struct operation_record
sample(void)
{
	struct operation_record record = {.stage = OPERATION_BEGUN,
	    .kind = 2,
	    .number = UINT64_MAX,
	    .at = 1700000000,
	    .call = call,
	    .session_id = session,
	    .key = "\1key",
	    .learning_rate = 1e-4,
	    .force = true,
	    .ids = "\2\0\0\0ids",
	    .ids_len = 7,
	    .headers = ""};

	memset(record.digest, 0xa5, sizeof(record.digest));
	return record;
}

TEST(what_was_asked_comes_back)
{
	struct operation_record record = sample(), back;
	uint8_t packed[1024];
	long len = operation_record_put(&record, packed, sizeof(packed));

	CHECK(len > 0 && (size_t)len <= operation_record_size(&record));
	CHECK(operation_record_get(&back, packed, (size_t)len) == 0);
	CHECK(back.stage == OPERATION_BEGUN && back.kind == 2 && back.number == UINT64_MAX);
	CHECK(back.at == 1700000000 && back.learning_rate == 1e-4 && back.force);
	CHECK(strcmp(back.call, call) == 0 && strcmp(back.session_id, session) == 0);
	CHECK(strcmp(back.key, "\1key") == 0);
	CHECK(memcmp(back.digest, record.digest, sizeof(back.digest)) == 0);
	CHECK(back.ids_len == 7 && memcmp(back.ids, "\2\0\0\0ids", 7) == 0);
	CHECK(!back.has_body && back.body_len == 0);
	for (long i = 0; i < len; i++)
		CHECK_MSG(operation_record_get(&back, packed, (size_t)i) == -EBADMSG, "%ld", i);
	packed[len] = 0;
	CHECK(operation_record_get(&back, packed, (size_t)len + 1) == -EBADMSG);
	packed[1] = 3;
	CHECK(operation_record_get(&back, packed, (size_t)len) == -EBADMSG);
	packed[0] = OPERATION_RECORD_VERSION + 1;
	CHECK(operation_record_get(&back, packed, (size_t)len) == -EPROTO);
	CHECK(operation_record_put(&record, packed, (size_t)len - 1) == -EMSGSIZE);
}

TEST(what_was_answered_comes_back)
{
	struct operation_record record = sample(), back;
	uint8_t packed[1024];
	long len;

	record.stage = OPERATION_ANSWERED;
	record.ids_len = 0;
	record.status = 422;
	record.headers = "Stepd-Step: 7\r\n";
	record.has_body = true;
	record.body = "{\"detail\":\"x\"}";
	record.body_len = 14;
	len = operation_record_put(&record, packed, sizeof(packed));
	CHECK(len > 0 && operation_record_get(&back, packed, (size_t)len) == 0);
	CHECK(back.stage == OPERATION_ANSWERED && back.status == 422 && back.has_body);
	CHECK(strcmp(back.headers, "Stepd-Step: 7\r\n") == 0);
	CHECK(back.body_len == 14 && memcmp(back.body, "{\"detail\":\"x\"}", 14) == 0);
}

TEST_MAIN(TEST_CASE(what_was_asked_comes_back), TEST_CASE(what_was_answered_comes_back))
