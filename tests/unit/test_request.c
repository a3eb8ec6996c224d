/* Bodies beyond the recorded ones: stepd's own fields and calls, the caps of the list, long lists.
 */
#include "tests/unit/test.h"

#include "ipc/request_body.h"
#include "ipc/request_render.h"
#include "supervisor/api/request_evaluate.h"
#include "supervisor/api/request_open.h"
#include "supervisor/api/request_save.h"
#include "supervisor/api/request_sign.h"
#include "supervisor/api/request_train.h"
#include "supervisor/api/request_verify.h"

static struct request_evaluate evaluate_body;
static struct request_open open_body;
static struct request_save save_body;
static struct request_generate generate_body;
static struct request_sign sign_body;
static struct request_train train_body;
static struct request_verify verify_body;

/* "type@loc;..." of the faults of a body, or "" or the sentence. */
static const char *
faults_of(struct faults *f, char *text, size_t size)
{
	char *detail = faults_detail(f, NULL);
	struct json_doc *doc;
	size_t at = 0;

	text[0] = '\0';
	CHECK(json_parse(&doc, detail, strlen(detail), NULL) == 0);
	if (json_is(json_root(doc), JSON_STRING))
		snprintf(text, size, "%s", json_string(json_root(doc), NULL));
	json_foreach (entry, json_root(doc)) {
		at += (size_t)snprintf(text + at, size - at, "%s%s@", at > 0 ? ";" : "",
		    json_string(json_get(entry, "type"), NULL));
		json_foreach (step, json_get(entry, "loc"))
			at += (size_t)snprintf(text + at, size - at, ".%s",
			    json_is(step, JSON_STRING) ? json_string(step, NULL)
						       : json_number(step, NULL));
	}
	json_free(doc);
	free(detail);
	return text;
}

#define PARSE(kind, body, wanted, checks)                                                          \
	do {                                                                                       \
		char text_[2000];                                                                  \
		struct json_doc *doc_;                                                             \
		struct faults f_;                                                                  \
		faults_init(&f_);                                                                  \
		if (request_body_parse(&doc_, true, body, strlen(body), &f_) == 0)                 \
			request_##kind##_parse(doc_, &kind##_body, &f_);                           \
		CHECK_STR(faults_of(&f_, text_, sizeof(text_)), wanted);                           \
		checks;                                                                            \
		faults_fini(&f_);                                                                  \
		json_free(doc_);                                                                   \
	} while (0)

#define OPEN(rest, wanted, checks)                                                                 \
	do {                                                                                       \
		request_open_defaults(&open_body);                                                 \
		PARSE(open, "{\"base_model\":\"m\",\"lora_rank\":8,\"seed\":0" rest "}", wanted,   \
		    checks);                                                                       \
	} while (0)

TEST(open_defaults)
{
	OPEN("", "", {
		CHECK_STR(open_body.target_modules, "all-linear");
		CHECK(open_body.lora_alpha == 0 && open_body.lora_dropout == 0);
		CHECK(open_body.weight_decay == 0.01 && open_body.max_grad_norm == 0);
		CHECK(open_body.beta1 == 0.9 && open_body.beta2 == 0.999);
		CHECK(open_body.epsilon == 1e-8);
		CHECK(open_body.model_revision == NULL && open_body.maximum_datum_tokens == 0);
	});
	OPEN(",\"lora_alpha\":null,\"target_modules\":null,\"beta1\":null", "",
	    CHECK_STR(open_body.target_modules, "all-linear"));
}

TEST(open_extensions)
{
	OPEN(",\"lora_alpha\":\"16\",\"lora_dropout\":0.5,\"weight_decay\":0,\"beta1\":0,\"beta2\":"
	     "0."
	     "95,\"epsilon\":1e-6,\"max_grad_norm\":1",
	    "", {
		    CHECK(open_body.lora_alpha == 16 && open_body.lora_dropout == 0.5);
		    CHECK(open_body.weight_decay == 0 && open_body.beta1 == 0);
		    CHECK(open_body.beta2 == 0.95 && open_body.epsilon == 1e-6);
		    CHECK(open_body.max_grad_norm == 1);
	    });
	OPEN(",\"target_modules\":[\"q_proj\",\"layers.0.self_attn.v_proj\"]", "",
	    CHECK_STR(open_body.target_modules, "q_proj,layers.0.self_attn.v_proj"));
	OPEN(",\"target_modules\":\"all-linear\"", "",
	    CHECK_STR(open_body.target_modules, "all-linear"));
	OPEN(",\"target_modules\":\"q_proj\"", "literal_error@.body.target_modules", );
	OPEN(",\"target_modules\":[]", "too_short@.body.target_modules", );
	OPEN(",\"target_modules\":[\"a,b\",\"\",7]",
	    "string_pattern_mismatch@.body.target_modules.0;"
	    "string_too_short@.body.target_modules.1;string_type@.body.target_modules.2;"
	    "too_short@.body.target_modules", );
	OPEN(",\"lora_alpha\":0,\"lora_dropout\":1,\"weight_decay\":-1,\"beta1\":1,\"beta2\":"
	     "\"nan\","
	     "\"epsilon\":0,\"max_grad_norm\":1e400",
	    "greater_than@.body.lora_alpha;less_than@.body.lora_dropout;"
	    "greater_than_equal@.body.weight_decay;less_than@.body.beta1;"
	    "greater_than_equal@.body.beta2;greater_than@.body.epsilon;"
	    "value_error@.body.max_grad_norm", );
	OPEN(",\"lora_dropout\":true", "float_type@.body.lora_dropout", );
}

TEST(save_restore_url)
{
	PARSE(save,
	    "{\"kind\":\"sampling\",\"name\":\"n\",\"upload_url\":\"https://h/a?s#f\","
	    "\"restore_url\":\"https://h/b\"}",
	    "", {
		    CHECK(save_body.kind == ARTIFACT_SAMPLING);
		    CHECK_STR(save_body.upload_url.text, "https://h/a?s");
		    CHECK_STR(save_body.restore_url.text, "https://h/b");
	    });
	PARSE(save,
	    "{\"kind\":\"state\",\"name\":\"n\",\"upload_url\":\"https://h/a\","
	    "\"restore_url\":\"http://h/b\"}",
	    "value_error@.body.restore_url", );
}

TEST(generate)
{
	PARSE(generate, "{\"prompt\":\"once\"}", "", {
		CHECK_STR(generate_body.prompt, "once");
		CHECK(generate_body.max_new_tokens == 64 && generate_body.adapter);
		CHECK(!json_exists(generate_body.messages));
	});
	PARSE(generate,
	    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_new_tokens\":\"4096\","
	    "\"adapter\":false}",
	    "", {
		    CHECK(json_count(generate_body.messages) == 1);
		    CHECK(generate_body.max_new_tokens == 4096 && !generate_body.adapter);
	    });
	PARSE(generate, "{}", "value_error@.body", );
	PARSE(generate, "{\"prompt\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
	    "value_error@.body", );
	PARSE(generate, "{\"prompt\":\"\",\"max_new_tokens\":0,\"adapter\":\"yes\",\"top_p\":1}",
	    "string_too_short@.body.prompt;greater_than_equal@.body.max_new_tokens;"
	    "bool_type@.body.adapter;extra_forbidden@.body.top_p", );
	PARSE(generate, "{\"messages\":[{\"role\":\"user\"}],\"max_new_tokens\":4097}",
	    "missing@.body.messages.0.content;too_short@.body.messages;"
	    "less_than_equal@.body.max_new_tokens", );
}

TEST(evaluate)
{
	PARSE(evaluate, "{\"datum_ids\":[\"a\",\"b\",\"a\"]}", "", {
		CHECK(evaluate_body.count == 3);
		CHECK_STR(json_string(json_first(evaluate_body.datum_ids), NULL), "a");
	});
	PARSE(
	    evaluate, "{\"datum_ids\":[\"\"],\"adapter\":true}", "extra_forbidden@.body.adapter", );
	PARSE(evaluate, "{}", "missing@.body.datum_ids", );
	PARSE(evaluate, "{\"datum_ids\":[\"a\",1,null]}",
	    "string_type@.body.datum_ids.1;string_type@.body.datum_ids.2", );
	PARSE(evaluate, "[]", "model_attributes_type@.body", );
}

TEST(verify)
{
	PARSE(verify, "{\"kind\":\"sampling\",\"download_url\":\"https://h/a?s#f\"}", "", {
		CHECK(verify_body.kind == ARTIFACT_SAMPLING && verify_body.size_bytes == 0);
		CHECK_STR(verify_body.download_url.text, "https://h/a?s");
		CHECK(verify_body.sha256 == NULL);
	});
	PARSE(verify,
	    "{\"kind\":\"state\",\"download_url\":\"https://h/a\",\"size_bytes\":\"7\",\"sha256\":"
	    "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}",
	    "", {
		    CHECK(verify_body.kind == ARTIFACT_STATE && verify_body.size_bytes == 7);
		    CHECK(strlen(verify_body.sha256) == 64);
	    });
	PARSE(verify,
	    "{\"kind\":\"state\",\"download_url\":\"https://h/"
	    "a\",\"size_bytes\":null,\"sha256\":null}",
	    "", CHECK(verify_body.size_bytes == 0 && verify_body.sha256 == NULL));
	PARSE(verify,
	    "{\"kind\":1,\"download_url\":\"ftp://"
	    "h\",\"size_bytes\":true,\"sha256\":\"\",\"name\":1}",
	    "literal_error@.body.kind;url_scheme@.body.download_url;"
	    "string_pattern_mismatch@.body.sha256;int_type@.body.size_bytes;"
	    "extra_forbidden@.body.name", );
	PARSE(verify, "{}", "missing@.body.kind;missing@.body.download_url", );
}

TEST(sign)
{
	PARSE(sign, "{}", "", {
		CHECK(sign_body.max_bytes == (uint64_t)8 << 30);
		CHECK(sign_body.expires_in == 86400);
	});
	PARSE(sign, "{\"max_bytes\":1,\"expires_in\":604800.0}", "",
	    CHECK(sign_body.max_bytes == 1 && sign_body.expires_in == 604800));
	PARSE(sign, "{\"max_bytes\":0,\"expires_in\":604801}",
	    "greater_than@.body.max_bytes;less_than_equal@.body.expires_in", );
}

TEST(bodies)
{
	PARSE(sign, "{\"a\":\"\\u0000\"}", "a string of the request body has a NUL character", );
	PARSE(sign, "{\"\\ud800\":1}", "a string of the request body has a lone surrogate", );
	PARSE(sign, "{\"a\":NaN}", "a number of the request body is not finite", );
	PARSE(sign, "{\"a\":\"\xff\"}", "the request body is not valid UTF-8", );
	PARSE(sign, "{\"a\":1,}", "json_invalid@.body.7", );
	/* Offsets count characters: the one before is three bytes. */
	PARSE(sign, "{\"\xe6\xa8\xa1\":1,}", "json_invalid@.body.7", );
	PARSE(
	    sign, "{\"x\":1,\"x\":2,\"y\":3}", "extra_forbidden@.body.x;extra_forbidden@.body.y", );
	CHECK(request_body_is_json("Application/JSON; charset=UTF-8"));
	CHECK(request_body_is_json(" application/vnd.x+JSON ;"));
	CHECK(!request_body_is_json("application/jsonx") && !request_body_is_json(NULL));
	CHECK(!request_body_is_json("text/json") && !request_body_is_json("application/"));
	CHECK(!request_body_is_json("application/json, text/plain"));
}

/* A million faults are found in one pass and listed up to the cap. */
TEST(caps)
{
	const size_t count = 1000000;
	char *body = malloc(count * 6 + 100), *at = body;
	struct json_doc *doc;
	struct faults f;
	size_t len;
	char *detail;

	at += sprintf(at, "{\"learning_rate\":1,\"datum_ids\":[0");
	for (size_t i = 1; i < count; i++, at += 2)
		memcpy(at, ",0", 2);
	at += sprintf(at, "]}");
	faults_init(&f);
	CHECK(request_body_parse(&doc, true, body, (size_t)(at - body), &f) == 0);
	CHECK(request_train_parse(doc, &train_body, &f) != 0);
	CHECK(f.count == count + 1); /* and too_short */
	detail = faults_detail(&f, &len);
	CHECK(len < FAULTS_SIZE_MAX);
	json_free(doc);
	CHECK(json_parse(&doc, detail, len, NULL) == 0);
	CHECK(json_count(json_root(doc)) == FAULTS_MAX);
	json_free(doc);
	free(detail);
	faults_fini(&f);
	free(body);
}

TEST(a_million_ids)
{
	const size_t count = 1000000;
	char *body = malloc(count * 70 + 100), *at = body;
	struct json_doc *doc;
	struct faults f;

	at += sprintf(at, "{\"learning_rate\":1,\"datum_ids\":[");
	for (size_t i = 0; i < count; i++)
		at += sprintf(at, "%s\"%064zx\"", i == 0 ? "" : ",", i);
	at += sprintf(at, "]}");
	faults_init(&f);
	CHECK(request_body_parse(&doc, true, body, (size_t)(at - body), &f) == 0);
	CHECK(request_train_parse(doc, &train_body, &f) == 0);
	CHECK(train_body.count == count && train_body.learning_rate == 1);
	json_free(doc);
	faults_fini(&f);
	free(body);
}

TEST(long_key_is_cut)
{
	char body[4000];
	struct json_doc *doc;
	struct faults f;
	char *detail;

	memset(body, 'k', sizeof(body));
	memcpy(body, "{\"", 2);
	memcpy(body + 3000, "\xc3\xa9\":1}", 7);
	faults_init(&f);
	CHECK(request_body_parse(&doc, true, body, strlen(body), &f) == 0);
	CHECK(request_sign_parse(doc, &sign_body, &f) != 0);
	detail = faults_detail(&f, NULL);
	CHECK(strlen(detail) < FAULT_KEY_MAX + 200 && strlen(detail) > FAULT_KEY_MAX);
	free(detail);
	faults_fini(&f);
	json_free(doc);
}

TEST_MAIN(TEST_CASE(open_defaults), TEST_CASE(open_extensions), TEST_CASE(save_restore_url),
    TEST_CASE(generate), TEST_CASE(evaluate), TEST_CASE(verify), TEST_CASE(sign), TEST_CASE(bodies),
    TEST_CASE(caps), TEST_CASE(a_million_ids), TEST_CASE(long_key_is_cut))
