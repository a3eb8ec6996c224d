#include "worker/tokenizer/pattern_property.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define SPACE_SET                                                                                  \
	"\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
	"\\x{205f}\\x{3000}"

static const struct {
	const char *name; /* letters only, lower case */
	const char *set;
	bool cased; /* other than itself in a case-insensitive group */
} properties[] = {
    {"any", "\\x00-\\x{10ffff}", false},
    {"ascii", "\\x00-\\x7f", false},
    {"space", SPACE_SET, false},
    {"whitespace", SPACE_SET, false},
    {"digit", "\\p{Nd}", false},
    {"xdigit", "0-9A-Fa-f", false},
    {"word", PATTERN_WORD_SET, false},
    {"blank", "\\x09\\p{Zs}", false},
    {"cntrl", "\\p{Cc}", false},
    {"l", "\\p{L}", false},
    {"letter", "\\p{L}", false},
    {"lu", "\\p{Lu}", true},
    {"uppercaseletter", "\\p{Lu}", true},
    {"ll", "\\p{Ll}", true},
    {"lowercaseletter", "\\p{Ll}", true},
    {"lt", "\\p{Lt}", true},
    {"titlecaseletter", "\\p{Lt}", true},
    {"lm", "\\p{Lm}", true},
    {"modifierletter", "\\p{Lm}", true},
    {"lo", "\\p{Lo}", true},
    {"otherletter", "\\p{Lo}", true},
    {"m", "\\p{M}", false},
    {"mark", "\\p{M}", false},
    {"mn", "\\p{Mn}", true}, /* U+0345 has a capital */
    {"nonspacingmark", "\\p{Mn}", true},
    {"mc", "\\p{Mc}", false},
    {"spacingmark", "\\p{Mc}", false},
    {"me", "\\p{Me}", false},
    {"enclosingmark", "\\p{Me}", false},
    {"n", "\\p{N}", false},
    {"number", "\\p{N}", false},
    {"nd", "\\p{Nd}", false},
    {"decimalnumber", "\\p{Nd}", false},
    {"nl", "\\p{Nl}", true},
    {"letternumber", "\\p{Nl}", true},
    {"no", "\\p{No}", false},
    {"othernumber", "\\p{No}", false},
    {"p", "\\p{P}", false},
    {"punctuation", "\\p{P}", false},
    {"punct", "\\p{P}", false},
    {"pc", "\\p{Pc}", false},
    {"connectorpunctuation", "\\p{Pc}", false},
    {"pd", "\\p{Pd}", false},
    {"dashpunctuation", "\\p{Pd}", false},
    {"ps", "\\p{Ps}", false},
    {"openpunctuation", "\\p{Ps}", false},
    {"pe", "\\p{Pe}", false},
    {"closepunctuation", "\\p{Pe}", false},
    {"pi", "\\p{Pi}", false},
    {"initialpunctuation", "\\p{Pi}", false},
    {"pf", "\\p{Pf}", false},
    {"finalpunctuation", "\\p{Pf}", false},
    {"po", "\\p{Po}", false},
    {"otherpunctuation", "\\p{Po}", false},
    {"s", "\\p{S}", false},
    {"symbol", "\\p{S}", false},
    {"sm", "\\p{Sm}", false},
    {"mathsymbol", "\\p{Sm}", false},
    {"sc", "\\p{Sc}", false},
    {"currencysymbol", "\\p{Sc}", false},
    {"sk", "\\p{Sk}", false},
    {"modifiersymbol", "\\p{Sk}", false},
    {"so", "\\p{So}", true},
    {"othersymbol", "\\p{So}", true},
    {"z", "\\p{Z}", false},
    {"separator", "\\p{Z}", false},
    {"zs", "\\p{Zs}", false},
    {"spaceseparator", "\\p{Zs}", false},
    {"zl", "\\p{Zl}", false},
    {"lineseparator", "\\p{Zl}", false},
    {"zp", "\\p{Zp}", false},
    {"paragraphseparator", "\\p{Zp}", false},
    {"cc", "\\p{Cc}", false},
    {"control", "\\p{Cc}", false},
    {"cf", "\\p{Cf}", false},
    {"format", "\\p{Cf}", false},
    {"co", "\\p{Co}", false},
    {"privateuse", "\\p{Co}", false},
};

/* Scripts by their Unicode names. */
static const char *const scripts[] = {"Arabic", "Armenian", "Bengali", "Bopomofo", "Common",
    "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi", "Han",
    "Hangul", "Hebrew", "Hiragana", "Inherited", "Kannada", "Katakana", "Khmer", "Lao", "Latin",
    "Malayalam", "Mongolian", "Myanmar", "Sinhala", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan"};

int
pattern_refuse(const struct pattern_source *in, const char *what)
{
	return refuse(in->refusal, 422,
	    "%s: the pattern has %s at byte %zu, which is not supported", in->where, what, in->at);
}

static bool
script_is(const char *script, const char *name)
{
	return strcasecmp(script, name) == 0;
}

/* From PCRE2 10.40 on a bare script name means Script_Extensions; Oniguruma's is Script. */
static void
put_script(struct bytes *out, const char *script)
{
	char version[64] = "";
	int major = 0, minor = 0;

	pcre2_config(PCRE2_CONFIG_VERSION, version);
	sscanf(version, "%d.%d", &major, &minor);
	bytes_put_text(out, major > 10 || minor >= 40 ? "\\p{sc:" : "\\p{");
	bytes_put_text(out, script);
	bytes_put_text(out, "}");
}

int
pattern_members_named(
    struct pattern_source *in, struct bytes *members, const char *name, size_t len)
{
	char plain[40], what[80];
	size_t n = 0;

	for (size_t i = 0; i < len && n < sizeof(plain) - 1; i++)
		if (name[i] != ' ' && name[i] != '-' && name[i] != '_')
			plain[n++] = (char)tolower((unsigned char)name[i]);
	plain[n] = '\0';
	for (size_t i = 0; i < sizeof(properties) / sizeof(*properties); i++) {
		if (strcmp(properties[i].name, plain) != 0)
			continue;
		if (properties[i].cased && in->caseless)
			return pattern_refuse(in, "a letter's kind in a case-insensitive group");
		if (strcmp(plain, "word") == 0 && !in->in_class)
			bytes_put_text(members, PATTERN_LONE_WORD_SET);
		else
			bytes_put_text(members, properties[i].set);
		return 0;
	}
	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++)
		if (script_is(scripts[i], plain)) {
			put_script(members, scripts[i]);
			return 0;
		}
	snprintf(what, sizeof(what), "the property %.40s", plain);
	return pattern_refuse(in, what);
}

/* \p{Name}, \p{^Name} or \P{Name} at in->at: its members, and whether they are those left out. */
static int
property_escape(struct pattern_source *in, struct bytes *members, bool *negated)
{
	const char *s = in->text + in->at, *close;

	*negated = s[1] == 'P';
	close = s[2] == '{' ? memchr(s, '}', in->len - in->at) : NULL;
	if (close == NULL)
		return pattern_refuse(in, "\\p without {name}");
	s += 3;
	if (*s == '^') {
		*negated = !*negated;
		s++;
	}
	if (pattern_members_named(in, members, s, (size_t)(close - s)) != 0)
		return -1;
	in->at = (size_t)(close + 1 - in->text);
	return 0;
}

int
pattern_members_escape(struct pattern_source *in, struct bytes *members, bool *negated)
{
	char c = in->at + 1 < in->len ? in->text[in->at + 1] : '\0';
	const char *set;

	switch (c) {
	case 'p':
	case 'P':
		return property_escape(in, members, negated) != 0 ? -1 : 1;
	case 's':
	case 'S':
		set = SPACE_SET;
		break;
	case 'd':
	case 'D':
		set = "\\p{Nd}";
		break;
	case 'w':
	case 'W':
		set = in->in_class ? PATTERN_WORD_SET : PATTERN_LONE_WORD_SET;
		break;
	case 'h':
	case 'H':
		set = "0-9A-Fa-f";
		break;
	default:
		return 0;
	}
	*negated = isupper((unsigned char)c) != 0;
	bytes_put_text(members, set);
	in->at += 2;
	return 1;
}
