#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "supervisor/settings/config.h"
#include "supervisor/settings/config_table.h"

void
setting_size_text(uint64_t value, char out[32])
{
	static const char units[] = "kMGT";
	char unit[2] = "";

	for (unsigned i = 0; value != 0 && value % 1024 == 0 && i < 4; i++) {
		value /= 1024;
		unit[0] = units[i];
	}
	snprintf(out, 32, "%" PRIu64 "%s", value, unit);
}

static void
print_value(const struct config *c, const struct setting *s, FILE *out)
{
	const void *field = (const char *)c + s->offset;
	char size[32];

	switch (s->type) {
	case SETTING_STRING:
	case SETTING_PATH:
	case SETTING_CHOICE: {
		const char *text = *(const char *const *)field;

		if (text != NULL)
			fputs((s->flags & SETTING_SECRET) != 0 ? "(hidden)" : text, out);
		break;
	}
	case SETTING_UINT:
	case SETTING_SECONDS:
		fprintf(out, "%" PRIu64, *(const uint64_t *)field);
		break;
	case SETTING_SIZE:
		setting_size_text(*(const uint64_t *)field, size);
		fputs(size, out);
		break;
	case SETTING_BOOL:
		fputs(*(const bool *)field ? "true" : "false", out);
		break;
	}
}

void
config_print(const struct config *c, FILE *out)
{
	for (const struct setting *s = settings; s->name != NULL; s++) {
		fprintf(out, "%s=", s->name);
		print_value(c, s, out);
		fputc('\n', out);
	}
}

/* What a setting takes, in a few words. */
static void
describe(const struct setting *s, char out[96])
{
	char low[32], high[32];

	setting_size_text(s->min, low);
	setting_size_text(s->max, high);
	switch (s->type) {
	case SETTING_STRING:
		snprintf(out, 96, "text");
		break;
	case SETTING_PATH:
		snprintf(out, 96, "path");
		break;
	case SETTING_UINT:
		snprintf(out, 96, "%" PRIu64 " to %" PRIu64, s->min, s->max);
		break;
	case SETTING_SECONDS:
		snprintf(out, 96, "%" PRIu64 " to %" PRIu64 " s", s->min, s->max);
		break;
	case SETTING_SIZE:
		snprintf(out, 96, "%s to %s bytes", low, high);
		break;
	case SETTING_BOOL:
		snprintf(out, 96, "true or false");
		break;
	case SETTING_CHOICE:
		snprintf(out, 96, "%s", s->fallback);
		for (char *p = out; (p = strchr(p, '|')) != NULL;)
			*p = ' ';
		break;
	}
}

void
config_help(FILE *out, bool markdown)
{
	if (markdown)
		fputs("| setting | takes | default | meaning |\n| --- | --- | --- | --- |\n", out);
	for (const struct setting *s = settings; s->name != NULL; s++) {
		const char *fallback = s->fallback != NULL ? s->fallback : "";
		int len = s->type == SETTING_CHOICE ? (int)strcspn(fallback, "|") : 1024;
		char takes[96];

		describe(s, takes);
		if (markdown)
			fprintf(out, "| `%s` | %s | %.*s | %s |\n", s->name, takes, len, fallback,
			    s->help);
		else
			fprintf(out, "  %s (%s%s%.*s)\n      %s\n", s->name, takes,
			    *fallback != '\0' ? "; " : "", len, fallback, s->help);
	}
	if (markdown)
		return;
	fputs("\nKnown from other trainers, and without effect in this version:\n ", out);
#define NAME(name) fputs(" " name, out);
	SETTINGS_WITHOUT_EFFECT(NAME)
#undef NAME
	fputc('\n', out);
}
