#include "worker/tokenizer/normalize.h"

#include <utf8proc.h>

#include "ipc/utf8.h"
#include "worker/tokenizer/chars.h"
#include "worker/tokenizer/unicode_form.h"

void
rewrite_in_glyphs(struct pieces *p, size_t start, size_t end)
{
	char glyph[2];

	for (size_t i = start; i < end; i++)
		pieces_put(p, glyph, glyph_put(glyph, (unsigned char)p->text[i]),
		    pieces_origin(p, i, i + 1));
}

void
rewrite_with_prefix(struct pieces *p, size_t start, size_t end, const char *text, size_t len)
{
	pieces_put(p, text, len, pieces_origin(p, start, start + 1));
	pieces_copy(p, start, end);
}

int
rewrite_replaced(struct pieces *p, size_t start, size_t end, const struct pattern *pattern,
    const char *text, size_t len, struct refusal *r)
{
	struct pattern_scan scan = {.text = p->text + start, .len = end - start};
	size_t done = start;
	int rc = 0;

	while (!p->failed && (rc = pattern_next(pattern, p->run, &scan, r)) == 1) {
		size_t from = start + scan.start, to = start + scan.end;
		struct range origin = pieces_origin(p, start, start + 1);

		/* The replacement stands for the last byte that went, or for the one before. */
		if (to > start)
			origin = pieces_origin(p, to - 1, to);
		else
			origin.to = origin.from;
		pieces_copy(p, done, from);
		pieces_put(p, text, len, origin);
		done = to;
	}
	pieces_copy(p, done, end);
	return rc < 0 ? -1 : 0;
}

static void
rewrite_in_lowercase(struct pieces *p, size_t start, size_t end)
{
	char utf8[4];

	for (size_t i = start, n; i < end; i += n) {
		uint32_t c = char_at(p->text + i, &n);
		struct range origin = pieces_origin(p, i, i + 1);

		if (c == 0x130) { /* the one character whose lower case is two */
			pieces_put(p, "i\xcc\x87", 3, origin);
			continue;
		}
		c = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
		pieces_put(p, utf8, utf8_put(utf8, c), origin);
	}
}

/* false: the step leaves all pieces as they are, which is how most texts go through NFC. */
static bool
has_work(const struct step *step, const struct pieces *p)
{
	if (step->kind > NORMAL_NFKD)
		return true;
	for (size_t i = 0; i < p->count; i++)
		if (p->list[i].token < 0 &&
		    unicode_form_stable(p->text, p->list[i].start, p->list[i].end,
			(enum unicode_form)(step->kind - NORMAL_NFC)) != p->list[i].end)
			return true;
	return false;
}

static int
rewrite_piece(const struct step *step, struct pieces *p, struct unicode_scratch *s,
    const struct piece *piece, struct refusal *r)
{
	size_t start = piece->start, end = piece->end;

	switch (step->kind) {
	case NORMAL_NFC:
	case NORMAL_NFD:
	case NORMAL_NFKC:
	case NORMAL_NFKD:
		unicode_form_rewrite(
		    p, s, start, end, (enum unicode_form)(step->kind - NORMAL_NFC));
		return 0;
	case NORMAL_LOWERCASE:
		rewrite_in_lowercase(p, start, end);
		return 0;
	case NORMAL_REPLACE:
		return rewrite_replaced(
		    p, start, end, step->pattern, step->text, step->text_len, r);
	case NORMAL_PREPEND:
		rewrite_with_prefix(p, start, end, step->text, step->text_len);
		return 0;
	case NORMAL_BYTE_LEVEL:
		rewrite_in_glyphs(p, start, end);
		return 0;
	default:
		return refuse(r, 500, "step %d is no normalizer", (int)step->kind);
	}
}

int
normalize(const struct steps *steps, struct pieces *p, struct refusal *r)
{
	struct unicode_scratch scratch = {0};
	int rc = 0;

	for (size_t i = 0; i < steps->count && rc == 0; i++) {
		const struct step *step = &steps->list[i];

		if (!has_work(step, p))
			continue;
		for (size_t j = 0; j < p->count && rc == 0; j++) {
			const struct piece *piece = &p->list[j];

			pieces_rewrite_begin(p);
			if (piece->token >= 0)
				pieces_copy(p, piece->start, piece->end);
			else
				rc = rewrite_piece(step, p, &scratch, piece, r);
			pieces_rewrite_end(p, piece->token);
		}
		if (rc == 0 && pieces_rewrite_done(p) != 0)
			rc = pieces_refuse(p, r);
	}
	unicode_scratch_fini(&scratch);
	return rc;
}

int
normalize_text(
    const struct steps *steps, const char *text, size_t len, struct bytes *out, struct refusal *r)
{
	struct pieces p;
	int rc;

	if (pieces_init(&p, text, len) != 0)
		return refuse_memory(r);
	rc = normalize(steps, &p, r);
	if (rc == 0)
		for (size_t i = 0; i < p.count; i++)
			bytes_put(out, p.text + p.list[i].start, p.list[i].end - p.list[i].start);
	pieces_fini(&p);
	if (rc == 0 && out->failed)
		rc = refuse_memory(r);
	return rc;
}
