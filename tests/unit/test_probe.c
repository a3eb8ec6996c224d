/* The answer of a probe: nothing of one that is wrong anywhere is believed. */
#include <errno.h>

#include "supervisor/session/slot.h"
#include "tests/unit/test.h"

#define RIGHT                                                                                      \
	"{\"index\":0,\"name\":\"A\",\"uuid\":\"GPU-1\",\"pci_bus_id\":\"0000:3b:00.0\","          \
	"\"memory_bytes\":1000,\"compute_capability\":\"8.0\",\"verified\":true,\"error\":null}"
#define ANSWER(devices) "{\"backend\":\"cuda\",\"error\":null,\"devices\":[" devices "]}"

static struct devices all;

static int
parse(const char *text)
{
	return probe_parse(text, strlen(text), &all);
}

/* The right one with one word changed. */
static int
parse_changed(const char *from, const char *to)
{
	static const char right[] = ANSWER(RIGHT);
	const char *at = strstr(right, from);
	char text[2048];

	CHECK_MSG(at != NULL, "%s", from);
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - right), right, to, at + strlen(from));
	return parse(text);
}

TEST(a_right_answer)
{
	CHECK(parse(ANSWER(RIGHT)) == 0 && all.count == 1 && all.at[0].verified);
	CHECK_STR(all.at[0].uuid, "GPU-1");
	CHECK_STR(all.at[0].bus, "0000:3b:00.0");
	CHECK(all.at[0].memory == 1000 && all.at[0].error[0] == '\0');
	CHECK(parse(ANSWER("")) == 0 && all.count == 0);
	CHECK(parse_changed("GPU-1", "MIG-1-a") == 0);
	CHECK_STR(all.at[0].uuid, "MIG-1-a");
	CHECK(parse_changed("\"verified\":true,\"error\":null",
		  "\"verified\":false,\"held\":true,\"error\":\"a session has it\"") == 0);
	CHECK(all.at[0].held && !all.at[0].verified);
	/* Its place is a help, no more: of another form it is not known. */
	CHECK(parse_changed("0000:3b:00.0", "../../etc") == 0 && all.at[0].bus[0] == '\0');
	CHECK(parse_changed("0000:3b:00.0", "0000:00000000:3b:00.0") == 0);
	CHECK(all.at[0].bus[0] == '\0');
}

TEST(wrong_answers)
{
	static const struct {
		const char *from, *to;
	} changes[] = {{"\"cuda\"", "\"rocm\""}, {"\"cuda\"", "1"}, {"\"index\":0", "\"index\":1"},
	    {"\"index\":0", "\"index\":0.5"}, {"\"index\":0", "\"index\":\"0\""},
	    {"\"index\":0,", ""}, {"\"name\":\"A\"", "\"name\":7"}, {"GPU-1", "GPU_1"},
	    {"GPU-1", "gpu-1"}, {"GPU-1", "GPU-1,GPU-2"}, {"GPU-1", "GPU-\\u0000"},
	    {"GPU-1", "GPU-\\ud800"}, {"GPU-1", "MIG-GPU-1/2/0"}, {"\"uuid\":\"GPU-1\",", ""},
	    {"GPU-1", "GPU-0000000000000000000000000000000000000000000000000000000000000"},
	    {":1000", ":0"}, {":1000", ":-1"}, {":1000", ":\"1000\""}, {":1000", ":1e40"},
	    {":1000", ":null"}, {"\"8.0\"", "8.0"}, {"true", "\"true\""}, {"true", "1"},
	    {"true", "null"}, {"\"verified\":true,", ""}, {"error\":null}]", "error\":\"x\"}]"},
	    {"true,\"error\":null", "false,\"error\":null"},
	    {"true,\"error\":null", "false,\"error\":\"\""},
	    {"true,\"error\":null", "true,\"held\":true,\"error\":null"},
	    {",\"error\":null}]", "}]"}, {"[", ""}, {"[", "[[],"}, {"]}", "]}]}"}, {"]}", "]"},
	    {"]}", ""}, {"}]}", "}," RIGHT "]}"}};

	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		int rc = parse_changed(changes[i].from, changes[i].to);

		CHECK_MSG(rc == -EBADMSG && all.count == 0, "%s to %s: %d", changes[i].from,
		    changes[i].to, rc);
	}
	CHECK(parse("") == -EBADMSG && parse("[]") == -EBADMSG && parse("null") == -EBADMSG);
}

/* Deeper and longer than anybody means. */
TEST(answers_without_measure)
{
	enum { SIZE = 64 * 1024 };
	static char text[SIZE + 1];
	size_t len;

	memset(text, '[', SIZE);
	CHECK(probe_parse(text, SIZE, &all) == -EBADMSG);
	len = (size_t)sprintf(text, "{\"backend\":\"cuda\",\"error\":null,\"devices\":[");
	for (int i = 0; i < DEVICES_MAX + 1; i++)
		len += (size_t)sprintf(text + len,
		    "%s{\"index\":%d,\"verified\":false,\"error\":\"x\"}", i > 0 ? "," : "", i);
	sprintf(text + len, "]}");
	CHECK(parse(text) == -EBADMSG && all.count == 0);
	/* A name without end is cut, between two letters. */
	len = (size_t)sprintf(text, "{\"backend\":\"cuda\",\"error\":\"");
	for (int i = 0; i < 20000; i++)
		len += (size_t)sprintf(text + len, "%s", i == 0 ? "a" : "\303\244");
	sprintf(text + len, "\",\"devices\":[]}");
	CHECK(parse(text) == 0 && strlen(all.error) == DEVICE_ERROR_MAX - 1);
	sprintf(text, "{\"backend\":\"cuda\",\"error\":\"\303\244");
	for (len = strlen(text); len < 2000; len += 2)
		memcpy(text + len, "\303\244", 2);
	sprintf(text + len, "\",\"devices\":[]}");
	CHECK(parse(text) == 0 && strlen(all.error) == DEVICE_ERROR_MAX - 2);
}

TEST(words_command_no_terminal)
{
	CHECK(parse("{\"backend\":\"cuda\",\"error\":\"a\\u001b[2J\\u009b2J\\n\\u007f\303\244\","
		    "\"devices\":[]}") == 0);
	CHECK_STR(all.error, "a [2J  2J  \303\244");
}

TEST_MAIN(TEST_CASE(a_right_answer), TEST_CASE(wrong_answers), TEST_CASE(answers_without_measure),
    TEST_CASE(words_command_no_terminal))
