/* The record of a session: every field comes back, and those of older versions are read. */
#include <errno.h>
#include <string.h>

#include "ipc/message.h"
#include "supervisor/session/session_record.h"
#include "supervisor/session/slot.h"
#include "tests/unit/test.h"

static struct session_record
sample(void)
{
	struct session_record r = {.id = "0123456789abcdef0123456789abcdef",
	    .fate = FATE_NEEDS_RESTORE,
	    .reason = "killed",
	    .base_model = "org/model \303\251",
	    .target_modules = "q_proj,v_proj",
	    .lora_rank = 4096,
	    .seed = 4294967295u,
	    .maximum_datum_tokens = 1ull << 40,
	    .lora_alpha = 16,
	    .epsilon = 1e-8,
	    .compute = "bf16",
	    .device = "cpu",
	    .step = 11,
	    .tokens_seen = 123456789012ull,
	    .saved_step = 9,
	    .saved_kind = 1,
	    .opened_at = 1700000000,
	    .changed_at = -1};

	memset(r.saved_sha256, 'a', 64);
	r.saved[0] = (struct saved_artifact){.step = 9, .size = 1000};
	memset(r.saved[0].sha256, 'a', 64);
	r.saved[1] = (struct saved_artifact){.step = 8, .size = 2000, .sha256 = "b"};
	r.verified_step = 8;
	r.verified_kind = 2;
	strcpy(r.verified_sha256, "b");
	r.threads = 7;
	r.kind = 2;
	r.micro_batch = 1ull << 33;
	for (int i = 0; i < 11; i++)
		session_record_add_loss(&r, 1.0 / (i + 1));
	return r;
}

TEST(a_session_packs_and_unpacks)
{
	static uint8_t packed[SESSION_RECORD_MAX], cut[SESSION_RECORD_MAX];
	struct session_record r = sample(), back;
	long len = session_record_put(&r, packed);

	CHECK(r.loss_count == RECENT_LOSSES);
	CHECK(r.losses[0] == 1.0 / 4 && r.losses[7] == 1.0 / 11);
	CHECK(len > 0 && packed[0] == SESSION_RECORD_VERSION);
	CHECK(session_record_get(&back, packed, (size_t)len) == 0);
	CHECK_STR(back.id, r.id);
	CHECK_STR(back.reason, r.reason);
	CHECK_STR(back.base_model, r.base_model);
	CHECK_STR(back.target_modules, r.target_modules);
	CHECK_STR(back.saved_sha256, r.saved_sha256);
	CHECK_STR(back.saved[0].sha256, r.saved[0].sha256);
	CHECK(back.saved[1].step == 8 && back.saved[1].size == 2000);
	CHECK(back.verified_step == 8 && back.verified_kind == 2);
	CHECK_STR(back.verified_sha256, "b");
	CHECK(back.threads == 7 && back.kind == 2 && back.micro_batch == 1ull << 33);
	CHECK(back.seed == r.seed && back.lora_rank == r.lora_rank && back.step == 11);
	CHECK(back.maximum_datum_tokens == r.maximum_datum_tokens);
	CHECK(back.epsilon == 1e-8 && back.losses[7] == r.losses[7] && back.changed_at == -1);
	/* Every cut, and anything behind it, is refused. */
	for (long i = 0; i < len; i++) {
		memcpy(cut, packed, (size_t)i);
		CHECK_MSG(session_record_get(&back, cut, (size_t)i) == -EBADMSG, "%ld", i);
	}
	CHECK(session_record_get(&back, packed, (size_t)len + 1) == -EBADMSG);
	packed[0] = SESSION_RECORD_VERSION + 1;
	CHECK(session_record_get(&back, packed, (size_t)len) == -EPROTO);
}

/* A record of version 1 ended with its times: what was saved is known, its size is not. */
TEST(a_session_of_version_1_is_read)
{
	static uint8_t packed[SESSION_RECORD_MAX];
	struct session_record r = sample(), back;
	const size_t since = 2 * 16 + (4 + 65) + (4 + 2) + 8 + 1 + (4 + 2) + 4 + 1 + 8; /* bytes */
	long len = session_record_put(&r, packed);

	packed[0] = 1;
	CHECK(session_record_get(&back, packed, (size_t)len) == -EBADMSG);
	CHECK(session_record_get(&back, packed, (size_t)len - since) == 0);
	CHECK(back.step == 11 && back.changed_at == -1 && back.saved_step == 9);
	CHECK(back.saved[0].step == 9 && back.saved[0].size == 0);
	CHECK_STR(back.saved[0].sha256, r.saved_sha256);
	CHECK(back.saved[1].sha256[0] == '\0' && back.verified_kind == 0);
	packed[0] = 0;
	CHECK(session_record_get(&back, packed, (size_t)len - since) == -EBADMSG);
}

/* One of version 2 knows no threads. */
TEST(a_session_of_version_2_is_read)
{
	static uint8_t packed[SESSION_RECORD_MAX];
	struct session_record r = sample(), back;
	long len = session_record_put(&r, packed);

	packed[0] = 2;
	CHECK(session_record_get(&back, packed, (size_t)len) == -EBADMSG);
	CHECK(session_record_get(&back, packed, (size_t)len - 13) == 0);
	CHECK(back.threads == 0 && back.verified_step == 8 && back.saved[1].size == 2000);
}

/* One of version 3 knows no kind of device: it may go on where there is one. */
TEST(a_session_of_version_3_is_read)
{
	static uint8_t packed[SESSION_RECORD_MAX];
	struct session_record r = sample(), back;
	long len = session_record_put(&r, packed);

	packed[0] = 3;
	CHECK(session_record_get(&back, packed, (size_t)len) == -EBADMSG);
	CHECK(session_record_get(&back, packed, (size_t)len - 9) == 0);
	CHECK(back.threads == 7 && back.kind == 0);
	packed[0] = SESSION_RECORD_VERSION;
	packed[len - 9] = 3;
	CHECK(session_record_get(&back, packed, (size_t)len) == -EBADMSG);
}

/* One of version 4 does not know what its requests were split by. */
TEST(a_session_of_version_4_is_read)
{
	static uint8_t packed[SESSION_RECORD_MAX];
	struct session_record r = sample(), back;
	long len = session_record_put(&r, packed);

	packed[0] = 4;
	CHECK(session_record_get(&back, packed, (size_t)len) == -EBADMSG);
	CHECK(session_record_get(&back, packed, (size_t)len - 8) == 0);
	CHECK(back.kind == 2 && back.micro_batch == 0);
}

TEST_MAIN(TEST_CASE(a_session_packs_and_unpacks), TEST_CASE(a_session_of_version_1_is_read),
    TEST_CASE(a_session_of_version_2_is_read), TEST_CASE(a_session_of_version_3_is_read),
    TEST_CASE(a_session_of_version_4_is_read))
