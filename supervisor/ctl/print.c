#include "supervisor/ctl/print.h"

#include <stdbool.h>

#include "supervisor/ctl/verbs.h"

static void
print_safely(FILE *to, const char *text, bool lines)
{
	for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
		/* C0, DEL, and C1 as UTF-8 has it */
		if ((*p < 0x20 && !(lines && (*p == '\n' || *p == '\t'))) || *p == 0x7f ||
		    (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)) {
			putc('?', to);
			p += *p == 0xc2;
		} else {
			putc(*p, to);
		}
	}
}

void
print_text(FILE *to, const char *text)
{
	print_safely(to, text, false);
}

void
print_lines(FILE *to, const char *text)
{
	print_safely(to, text, true);
}

int
print_json(struct json_writer *w)
{
	const char *text = json_writer_text(w, NULL);
	int rc = text != NULL ? 0 : ctl_out_of_memory();

	if (text != NULL)
		puts(text);
	json_writer_fini(w);
	return rc;
}

long long
number_of(struct json object, const char *key)
{
	int64_t v = 0;

	json_int64(json_get(object, key), &v);
	return v;
}
