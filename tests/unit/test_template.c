/* Chat templates: refusals by name and line, bounds against hostile source, messages as templates
   see them. What templates mean is compared with transformers in tests/golden/golden_templates.c.
 */
#include "worker/text/template.h"

#include "tests/unit/test.h"

static struct refusal why;

/* The rendering with these variables (JSON), or NULL with why; the caller frees it. */
static char *
render(const char *source, const char *context)
{
	struct chat_render in = {0};
	struct chat_template *t;
	struct json_doc *doc;
	char *text = NULL;
	size_t len;

	why.text[0] = '\0';
	if (chat_template_compile(&t, source, strlen(source), &why) != 0)
		return NULL;
	if (json_parse(&doc, context, strlen(context), NULL) == 0) {
		in.context = json_root(doc);
		if (chat_template_run(t, &in, &text, &len, &why) == 0 && text != NULL)
			text[len] = '\0'; /* there is room for it */
	}
	json_free(doc);
	chat_template_free(t);
	return text;
}

static void
gives(const char *source, const char *context, const char *want)
{
	char *text = render(source, context);

	CHECK_MSG(text != NULL && strcmp(text, want) == 0, "%s: \"%s\", want \"%s\"", source,
	    text != NULL ? text : why.text, want);
	free(text);
}

static void
refuses(const char *source, const char *want)
{
	char *text = render(source, "{}");

	CHECK_MSG(text == NULL && strcmp(why.text, want) == 0, "%s: \"%s\", want \"%s\"", source,
	    text != NULL ? text : why.text, want);
	free(text);
}

/* Refused, with a message that holds `part`. */
static void
refuses_like(const char *source, const char *part)
{
	char *text = render(source, "{\"l\": [1, 2, 3]}");

	CHECK_MSG(text == NULL && strstr(why.text, part) != NULL, "%.60s: \"%s\", want \"%s\"",
	    source, text != NULL ? "rendered" : why.text, part);
	free(text);
}

/* head, n times part, tail */
static char *
repeated(const char *head, const char *part, size_t n, const char *tail)
{
	size_t each = strlen(part), at = strlen(head);
	char *text = malloc(at + n * each + strlen(tail) + 1);

	memcpy(text, head, at);
	for (size_t i = 0; i < n; i++, at += each)
		memcpy(text + at, part, each);
	strcpy(text + at, tail);
	return text;
}

static void
refuses_repeated(const char *head, const char *part, size_t n, const char *tail, const char *want)
{
	char *source = repeated(head, part, n, tail);

	refuses_like(source, want);
	free(source);
}

TEST(refused_by_name_and_line)
{
	refuses("a\n{% include 'x' %}", "line 2: 'include' is not supported");
	refuses("{% extends 'x' %}", "line 1: 'extends' is not supported");
	refuses("\n\n{% import 'x' as y %}", "line 3: 'import' is not supported");
	refuses("{% from 'x' import y %}", "line 1: 'from' is not supported");
	refuses("{% do x %}", "line 1: Encountered unknown tag 'do'.");
	refuses(
	    "{% for a in b recursive %}{% endfor %}", "line 1: recursive loops are not supported");
	refuses("{{ 1 }}\n{{ x|nosuch }}", "line 2: No filter named 'nosuch'.");
	refuses("{{ x|urlize }}", "line 1: No filter named 'urlize' is supported.");
	refuses("{{ x is\n nosuch }}", "line 1: No test named 'nosuch'.");
	refuses("{{ lipsum() }}", "line 1: lipsum() is not supported");
	refuses("{{ self.b() }}", "line 1: 'self' is not supported");
	refuses("{% if true %}\n{% break %}{% endif %}", "line 2: 'break' outside loop");
	refuses("{{ 'a", "line 1: unexpected char \"'\"");
	refuses("{{ 1 ? 2 }}", "line 1: unexpected char '?'");
	refuses("{{ '\\ud800' }}", "line 1: an escape that is no character");
	refuses("\xff", "line 1: the source is not UTF-8");
}

/* Jinja looks for filters and tests of an `if` when it comes to them. */
TEST(unknown_filter_inside_if)
{
	gives("{% if x %}{{ 1|nosuch }}{% endif %}ok", "{}", "ok");
	gives("{{ 1|nosuch if x else 'ok' }}", "{}", "ok");
	refuses(
	    "{% if true %}{{ 1|nosuch }}{% endif %}", "No filter named 'nosuch' found. (line 1)");
	refuses("{% if false %}{% for i in [] %}{{ 1|nosuch }}{% endfor %}{% endif %}",
	    "line 1: No filter named 'nosuch'.");
}

TEST(failures_name_the_line)
{
	refuses("a\n\n{{ x.y.z }}", "'x' is undefined (line 3)");
	refuses("{% macro f() %}\n{{ none + 1 }}{% endmacro %}\n\n{{ f() }}",
	    "unsupported operand type(s) for +: 'NoneType' and 'int' (line 2)");
	refuses("{{ raise_exception('no ' ~ 1) }}", "no 1");
	refuses("{{ [].append(1) }}",
	    "access to attribute 'append' of 'list' object is unsafe. (line 1)");
	refuses("{{ ''.encode() }}", "the method 'encode' is not supported (line 1)");
}

TEST(endless_loops)
{
	refuses_like(
	    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
	    "takes too long");
	refuses_like(
	    "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}", "");
	refuses_like("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion depth");
	refuses_like("{% macro f(n) %}{% call g(n) %}{% endcall %}{% endmacro %}"
		     "{% macro g(n) %}{{ f(n) }}{{ caller() }}{% endmacro %}{{ f(1) }}",
	    "recursion depth");
	refuses_like("{% set ns = namespace(n=10) %}{% for i in range(90000) %}"
		     "{% set ns.n = ns.n * ns.n %}{% endfor %}",
	    "digits");
	refuses_like("{{ 10 ** 100000 }}", "digits");
	refuses_like("{% for a in range(100000) %}{{ range(100000)|list|length }}{% endfor %}", "");
	refuses_like(
	    "{% set x = range(100000)|list %}{% for a in x %}{{ x|sort|first }}{% endfor %}", "");
}

TEST(growth_without_end)
{
	refuses_like("{% set ns = namespace(s='ab') %}{% for i in range(60) %}"
		     "{% set ns.s = ns.s + ns.s %}{% endfor %}",
	    "MiB");
	refuses_like("{% set ns = namespace(s=[1]) %}{% for i in range(60) %}"
		     "{% set ns.s = ns.s + ns.s %}{% endfor %}",
	    "");
	refuses_like("{{ 'ab' * 10000000000 }}", "too long");
	refuses_like("{{ [1] * 10000000000 }}", "");
	refuses_like("{{ '%1000000000d' % 1 }}", "format field");
	refuses_like("{{ 'a'.center(100000000000) }}", "");
	refuses_like("{{ 'x'|indent(9999999999) }}", "");
	refuses_like("{% set ns = namespace(s='a') %}{% for i in range(40) %}{% set ns.s %}"
		     "{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}",
	    "MiB");
	refuses_like(
	    "{% set x = 'ab' * 100000 %}{% for i in range(100000) %}{{ x }}{% endfor %}", "MiB");
}

TEST(deep_nesting)
{
	refuses_repeated("{{ ", "(", 5000, "1", "nested too deeply");
	refuses_repeated("{{ ", "[", 5000, "", "nested too deeply");
	refuses_repeated("{{ ", "{1:", 5000, "", "nested too deeply");
	refuses_repeated("{{ ", "not ", 5000, "1 }}", "nested too deeply");
	refuses_repeated("{{ ", "-", 5000, "1 }}", "nested too deeply");
	refuses_repeated("{{ 1", " + l", 5000, " }}", "nested too deeply");
	refuses_repeated("{{ 1", " if 1 else 2", 5000, " }}", "nested too deeply");
	refuses_repeated("{{ l", ".a", 5000, " }}", "nested too deeply");
	refuses_repeated("{{ l", "|list", 5000, " }}", "nested too deeply");
	refuses_repeated("{{ l", "[0", 5000, " }}", "nested too deeply");
	refuses_repeated("", "{% if 1 %}", 5000, "", "nested too deeply");
	refuses_repeated("", "{% for a in l %}", 5000, "", "nested too deeply");
	refuses_repeated("", "{% macro f() %}", 5000, "", "nested too deeply");
	refuses_repeated("{% set ", "(", 5000, "a", "nested too deeply");
	/* what is long but not deep is no problem */
	char *source = repeated("{% if x %}", "{% elif x %}", 5000, "{% else %}ok{% endif %}");

	gives(source, "{}", "ok");
	free(source);
}

/* Values that contain themselves, or are nested at run time as no source is. */
TEST(deep_values)
{
	const char *deep = "{% set ns = namespace(v=[]) %}{% for i in range(5000) %}"
			   "{% set ns.v = [ns.v] %}{% endfor %}";
	const char *uses[] = {"{{ ns.v }}", "{{ ns.v|tojson }}", "{{ ns.v == [ns.v] }}",
	    "{{ [ns.v, ns.v]|sort }}", "{{ {(ns.v|list|length, 1): 2}|string }}{{ ns.v|string }}"};
	char source[400];

	for (size_t i = 0; i < sizeof(uses) / sizeof(*uses); i++) {
		snprintf(source, sizeof(source), "%s%s", deep, uses[i]);
		if (i == 3) { /* equal at once: the same objects */
			char *text = render(source, "{}");

			free(text);
			continue;
		}
		refuses_like(source, i == 2 ? "" : "recursion depth");
	}
	refuses_like(
	    "{% set ns = namespace() %}{% set ns.self_ = ns %}{{ ns }}", "recursion depth");
	refuses_like("{% set ns = namespace(g=[1]) %}{% for i in range(5000) %}"
		     "{% set ns.g = ns.g|map('string') %}{% endfor %}{{ ns.g|list }}",
	    "recursion depth");
}

/* Appending in a loop costs what is appended, for texts and for lists. */
TEST(appending_is_linear)
{
	char *text =
	    render("{% set ns = namespace(s='', l=[]) %}{% for i in range(90000) %}"
		   "{% set ns.s = ns.s + 'abcdefghij' %}{% set ns.l = ns.l + [i] %}{% endfor %}"
		   "{{ ns.s|length }} {{ ns.l|length }} {{ ns.l[-1] }}",
		"{}");

	CHECK_MSG(text != NULL, "%s", why.text);
	if (text != NULL)
		CHECK_STR(text, "900000 90000 89999");
	free(text);
	/* and what was shared stays as it was */
	gives(
	    "{% set a = [1] %}{% set b = a + [2] %}{% set c = b + [3] %}{% set d = b + [4] %}"
	    "{{ b }}{{ c }}{{ d }}{% set s = 'x' + 'y' %}{% set t = s + '1' %}{% set u = s + '2' %}"
	    "{{ s }}{{ t }}{{ u }}",
	    "{}", "[1, 2][1, 2, 3][1, 2, 4]xyxy1xy2");
}

TEST(names_follow_scopes)
{
	/* assigned later in its scope: undefined before, also if the context has it */
	gives("{% for i in [1] %}{{ x }}{% endfor %}{% set x = 1 %}", "{\"x\": 5}", "");
	gives("{{ x }}{% set x = 1 %}{{ x }}", "{\"x\": 5}", "51");
	gives(
	    "{% macro f() %}{{ y }}{% endmacro %}{% set y = 1 %}{{ f() }}{% set y = 2 %}{{ f() }}",
	    "{}", "12");
	gives("{% for i in [1, 2] %}{% macro f() %}{{ i }}{{ loop.index }}{% endmacro %}{{ f() }}"
	      "{% endfor %}",
	    "{}", "1122");
	gives("{% set x = 0 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
	    "{}", "120");
	gives("{% for i in [3] if i > x %}{% set x = 9 %}{{ i }}{{ x }}{% endfor %}", "{\"x\": 1}",
	    "39");
}

/* A generator does nothing before it is asked, and gives what it has once. */
TEST(generators_are_lazy)
{
	gives("{% set g = [1, 2]|map('string') %}{{ g|join }}{{ g|join }}", "{}", "12");
	gives("{{ 'y' if []|select else 'n' }}", "{}", "y");
	gives("{{ [1, none]|map('abs')|first }}", "{}", "1");
	gives("{% set ns = namespace(stop=false) %}{% for i in [1, 2, 3] if not ns.stop %}{{ i }}"
	      "{% if i == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
	    "{}", "12");
}

static char *
conversation(const char *source, const char *messages, bool generation)
{
	static const char variables[] =
	    "{\"bos_token\": \"<s>\", \"now\": \"2026-11-30T09:08:07\"}";
	struct json_doc *doc, *more;
	struct chat_template *t;
	char *text = NULL;
	size_t len;

	if (chat_template_compile(&t, source, strlen(source), &why) != 0)
		return NULL;
	json_parse(&doc, messages, strlen(messages), NULL);
	json_parse(&more, variables, sizeof(variables) - 1, NULL);
	if (chat_template_render(t, json_root(doc), json_count(json_root(doc)), generation,
		json_root(more), &text, &len, &why) == 0)
		text[len] = '\0';
	json_free(doc);
	json_free(more);
	chat_template_free(t);
	return text;
}

static void
says(const char *source, const char *messages, const char *want)
{
	char *text = conversation(source, messages, true);

	CHECK_MSG(text != NULL && strcmp(text, want) == 0, "%s: \"%s\", want \"%s\"", source,
	    text != NULL ? text : why.text, want);
	free(text);
}

TEST(messages_as_transformers_gives_them)
{
	const char *all = "{{ messages[0] }}";

	says(
	    all, "[{\"role\": \"user\", \"content\": null, \"x\": 1}]", "{'role': 'user', 'x': 1}");
	says(all, "[{\"role\": \"a\", \"reasoning\": \"r\"}]",
	    "{'thinking': 'r', 'role': 'a', 'reasoning': 'r', 'reasoning_content': 'r'}");
	says(all, "[{\"role\": \"a\", \"reasoning_content\": \"r\", \"thinking\": \"t\"}]",
	    "{'thinking': 't', 'role': 'a', 'reasoning_content': 'r'}");
	says("{{ messages[0].tool_calls[0].function.arguments }}",
	    "[{\"tool_calls\": [{\"function\": {\"arguments\": \" {\\\"a\\\": [1.50, null]}\"}}]}]",
	    "{'a': [1.5, None]}");
	says("{{ messages[0].tool_calls[0].function.arguments }}",
	    "[{\"tool_calls\": [{\"function\": {\"arguments\": \"[1]\"}}]}]", "[1]");
	says("{{ messages[0].tool_calls[0].function.arguments }}",
	    "[{\"tool_calls\": [{\"function\": {\"arguments\": \"{bad\"}}]}]", "{bad");
	says("{{ bos_token }}{{ tools is none }}{{ documents }}{{ eos_token is defined }}"
	     "{{ add_generation_prompt }}{{ strftime_now('%Y %j') }}",
	    "[{}]", "<s>TrueNoneFalseTrue2026 334");
	CHECK(conversation(all, "[]", false) == NULL);
	CHECK_STR(why.text, "the conversation is empty");
}

/* 2 MB of one message, in time that grows with its length. */
TEST(long_messages)
{
	const char *source =
	    "{% for m in messages %}{% if '</think>' in m.content %}"
	    "{{ m.content.split('</think>')[-1].lstrip('\n') }}{% else %}"
	    "{{ '<' + m.role + '>' + m.content|trim + '\n' }}{% endif %}{% endfor %}";
	char *messages =
	    repeated("[{\"role\": \"user\", \"content\": \"", "h\xc3\xa9 ", 500000, "\"}]");
	char *text = conversation(source, messages, false);

	CHECK_MSG(text != NULL && strlen(text) == 6 + 500000 * 4 - 1 + 1, "%s", why.text);
	free(text);
	free(messages);
}

TEST_MAIN(TEST_CASE(refused_by_name_and_line), TEST_CASE(unknown_filter_inside_if),
    TEST_CASE(failures_name_the_line), TEST_CASE(endless_loops), TEST_CASE(growth_without_end),
    TEST_CASE(deep_nesting), TEST_CASE(deep_values), TEST_CASE(appending_is_linear),
    TEST_CASE(names_follow_scopes), TEST_CASE(generators_are_lazy),
    TEST_CASE(messages_as_transformers_gives_them), TEST_CASE(long_messages))
