/* The records of the journal and of answers that are kept: every field comes back with its very
   bits, nothing that is cut, longer or newer is taken. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "supervisor/session/anchor.h"
#include "supervisor/session/journal.h"
#include "supervisor/session/kept_answer.h"
#include "tests/unit/test.h"

static const char id[] = "0123456789abcdef0123456789abcdef";

TEST(keys_go_by_session_and_step)
{
	static const uint64_t steps[] = {1, 2, 255, 256, 65536, 1ull << 40, UINT64_MAX};
	uint8_t before[JOURNAL_KEY_SIZE], key[JOURNAL_KEY_SIZE];

	journal_key(before, id, 0);
	CHECK(memcmp(before, id, 32) == 0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		journal_key(key, id, steps[i]);
		CHECK_MSG(memcmp(before, key, sizeof(key)) < 0, "step %zu", i);
		memcpy(before, key, sizeof(key));
	}
	journal_key(key, id, 0x0102030405060708ull);
	CHECK(memcmp(key + 32, "\1\2\3\4\5\6\7\10", 8) == 0);
}

static struct journal_step
sample_step(void)
{
	struct journal_step step = {.stage = JOURNAL_DONE,
	    .at = 1700000000,
	    .learning_rate = 1e-4,
	    .ids = "\2\0\0\0ids",
	    .ids_len = 7,
	    .loss = nextafter(0.1, 1),
	    .gradient_norm = 5e-324,
	    .input_tokens = UINT64_MAX,
	    .supervised_tokens = 3};

	memset(step.response, 0xa5, sizeof(step.response));
	return step;
}

TEST(a_step_comes_back_bit_for_bit)
{
	struct journal_step step = sample_step(), back;
	uint8_t packed[7 + JOURNAL_STEP_MAX + 1];
	long len = journal_step_put(&step, packed, sizeof(packed) - 1);

	CHECK(len > 0);
	CHECK(journal_step_get(&back, packed, (size_t)len) == 0);
	CHECK(back.stage == JOURNAL_DONE && back.at == 1700000000);
	CHECK(back.ids_len == 7 && memcmp(back.ids, "\2\0\0\0ids", 7) == 0);
	CHECK(memcmp(&back.loss, &step.loss, sizeof(double)) == 0);
	CHECK(memcmp(&back.gradient_norm, &step.gradient_norm, sizeof(double)) == 0);
	CHECK(back.learning_rate == 1e-4);
	CHECK(back.input_tokens == UINT64_MAX && back.supervised_tokens == 3);
	CHECK(memcmp(back.response, step.response, sizeof(step.response)) == 0);
	for (long i = 0; i < len; i++)
		CHECK_MSG(journal_step_get(&back, packed, (size_t)i) == -EBADMSG, "%ld", i);
	packed[len] = 0;
	CHECK(journal_step_get(&back, packed, (size_t)len + 1) == -EBADMSG);
	packed[1] = 3;
	CHECK(journal_step_get(&back, packed, (size_t)len) == -EBADMSG);
	packed[0] = JOURNAL_VERSION + 1;
	CHECK(journal_step_get(&back, packed, (size_t)len) == -EPROTO);
	CHECK(journal_step_put(&step, packed, (size_t)len - 1) == -EMSGSIZE);
}

TEST(an_answer_comes_back)
{
	struct kept_answer answer = {.kind = 2, .step = 7, .at = 1700000000}, back;
	char json[KEPT_JSON_MAX];
	uint8_t packed[KEPT_ANSWER_MAX + 1];
	long len;

	memset(json, 'j', sizeof(json));
	memset(answer.digest, 0x5a, sizeof(answer.digest));
	answer.json = json;
	answer.json_len = sizeof(json);
	len = kept_answer_put(&answer, packed);
	CHECK(len > 0);
	CHECK(kept_answer_get(&back, packed, (size_t)len) == 0);
	CHECK(back.kind == 2 && back.step == 7 && back.at == 1700000000);
	CHECK(memcmp(back.digest, answer.digest, sizeof(answer.digest)) == 0);
	CHECK(back.json_len == sizeof(json) && memcmp(back.json, json, sizeof(json)) == 0);
	for (long i = 0; i < len; i++)
		CHECK_MSG(kept_answer_get(&back, packed, (size_t)i) == -EBADMSG, "%ld", i);
	packed[0] = KEPT_VERSION + 1;
	CHECK(kept_answer_get(&back, packed, (size_t)len) == -EPROTO);
	/* Longer than any that is kept. */
	answer.json = "j";
	answer.json_len = 1;
	len = kept_answer_put(&answer, packed);
	packed[len - 5] = (KEPT_JSON_MAX + 1) & 0xff;
	packed[len - 4] = (KEPT_JSON_MAX + 1) >> 8;
	memset(packed + len - 1, 'j', sizeof(packed) - (size_t)len);
	CHECK(kept_answer_get(&back, packed, (size_t)len + KEPT_JSON_MAX) == -EBADMSG);
}

TEST(an_anchor_comes_back)
{
	struct anchor anchor = {.fd = 3, .step = 1ull << 33, .kind = 1, .named = true}, back;
	uint8_t packed[ANCHOR_RECORD_MAX + 1];
	long len;

	memset(anchor.sha256, 'a', 64);
	len = anchor_put(&anchor, packed);
	CHECK(len > 0);
	CHECK(anchor_get(&back, packed, (size_t)len) == 0);
	CHECK(back.fd == -1 && back.step == 1ull << 33 && back.kind == 1 && !back.named);
	CHECK(strcmp(back.sha256, anchor.sha256) == 0);
	for (long i = 0; i < len; i++)
		CHECK_MSG(anchor_get(&back, packed, (size_t)i) == -EBADMSG, "%ld", i);
	packed[0] = ANCHOR_VERSION + 1;
	CHECK(anchor_get(&back, packed, (size_t)len) == -EPROTO);
}

TEST(keys_of_answers_are_the_sessions_own)
{
	uint8_t key[KEPT_KEY_MAX];
	char longest[IDEMPOTENCY_KEY_MAX + 1];

	CHECK(kept_answer_key(key, id, "k") == 33 && memcmp(key, id, 32) == 0 && key[32] == 'k');
	memset(longest, 'x', IDEMPOTENCY_KEY_MAX);
	longest[IDEMPOTENCY_KEY_MAX] = '\0';
	CHECK(kept_answer_key(key, id, longest) == KEPT_KEY_MAX);
}

TEST_MAIN(TEST_CASE(keys_go_by_session_and_step), TEST_CASE(a_step_comes_back_bit_for_bit),
    TEST_CASE(an_answer_comes_back), TEST_CASE(an_anchor_comes_back),
    TEST_CASE(keys_of_answers_are_the_sessions_own))
