#include "worker/tokenizer/unicode_form.h"

#include <stdlib.h>

#include <utf8proc.h>

#include "ipc/utf8.h"
#include "worker/tokenizer/chars.h"

void
unicode_scratch_fini(struct unicode_scratch *s)
{
	free(s->parts);
	*s = (struct unicode_scratch){0};
}

static bool
composes(enum unicode_form form)
{
	return form == FORM_NFC || form == FORM_NFKC;
}

static bool
compatible(enum unicode_form form)
{
	return form == FORM_NFKC || form == FORM_NFKD;
}

/* false: the character is its own form, no mark that could be reordered, and nothing before it can
   take it in. Marks and jamo are always suspects. */
static bool
is_suspect(uint32_t c, enum unicode_form form)
{
	const utf8proc_property_t *k;

	if (c < 0x80)
		return false;
	if (c >= 0x1160 && c < 0x1200)
		return true; /* jamo that join the syllable before them */
	if (c >= 0xac00 && c < 0xd7a4)
		return !composes(form); /* Hangul syllables */
	k = utf8proc_get_property((utf8proc_int32_t)c);
	if (k->combining_class != 0 || k->category == UTF8PROC_CATEGORY_MN ||
	    k->category == UTF8PROC_CATEGORY_MC)
		return true;
	return k->decomp_seqindex != UINT16_MAX && (k->decomp_type == 0 || compatible(form));
}

size_t
unicode_form_stable(const char *text, size_t start, size_t end, enum unicode_form form)
{
	/* Nothing below U+0300 changes in NFC: two bytes with a lead below 0xcc. */
	unsigned char plain = form == FORM_NFC ? 0xcc : 0x80;
	size_t last = start; /* the last character before i */

	for (size_t i = start, n; i < end; last = i, i += n) {
		uint32_t c;

		n = 1;
		if ((unsigned char)text[i] < plain) {
			n = (unsigned char)text[i] < 0x80 ? 1 : 2;
			continue;
		}
		c = char_at(text + i, &n);
		if (is_suspect(c, form))
			return last;
	}
	return end;
}

static void
add_part(struct unicode_scratch *s, struct pieces *p, uint32_t point, bool first)
{
	const utf8proc_property_t *k = utf8proc_get_property((utf8proc_int32_t)point);

	if (!grow_array(&s->parts, &s->size, s->count + 1, sizeof(*s->parts))) {
		p->failed = true;
		return;
	}
	s->parts[s->count++] =
	    (struct unicode_part){point, first ? 0 : 1, (uint8_t)k->combining_class};
}

/* Insertion sort by combining class, stable; runs of marks are short, but a hostile one must not
   cost its square: from some length on it is merged in halves. */
static bool
sort_marks(struct unicode_part *parts, size_t count)
{
	struct unicode_part *merged;
	size_t half = count / 2, i = 0, j = half;

	if (count <= 32) {
		for (size_t k = 1; k < count; k++) {
			struct unicode_part x = parts[k];
			size_t at = k;

			for (; at > 0 && parts[at - 1].class > x.class; at--)
				parts[at] = parts[at - 1];
			parts[at] = x;
		}
		return true;
	}
	if (!sort_marks(parts, half) || !sort_marks(parts + half, count - half))
		return false;
	merged = malloc(count * sizeof(*merged));
	if (merged == NULL)
		return false;
	for (size_t k = 0; k < count; k++) {
		bool left = j == count || (i < half && parts[i].class <= parts[j].class);

		merged[k] = left ? parts[i++] : parts[j++];
	}
	for (size_t k = 0; k < count; k++)
		parts[k] = merged[k];
	free(merged);
	return true;
}

/* Decomposes bytes start..end into s->parts, in canonical order. */
static void
decompose(
    struct pieces *p, struct unicode_scratch *s, size_t start, size_t end, enum unicode_form form)
{
	utf8proc_option_t options = UTF8PROC_DECOMPOSE | (compatible(form) ? UTF8PROC_COMPAT : 0);
	size_t marks = 0; /* where the run of marks at the end begins */

	s->count = 0;
	for (size_t i = start, n; i < end; i += n) {
		utf8proc_int32_t c = (utf8proc_int32_t)char_at(p->text + i, &n), points[32];
		utf8proc_ssize_t count = utf8proc_decompose_char(c, points, 32, options, NULL);

		if (count < 1 || count > 32) {
			points[0] = c;
			count = 1;
		}
		for (utf8proc_ssize_t k = 0; k < count && !p->failed; k++) {
			add_part(s, p, (uint32_t)points[k], k == 0);
			if (p->failed || s->parts[s->count - 1].class != 0)
				continue;
			p->failed |= !sort_marks(s->parts + marks, s->count - 1 - marks);
			marks = s->count;
		}
	}
	if (!p->failed)
		p->failed |= !sort_marks(s->parts + marks, s->count - marks);
}

/* The primary composite of two characters, or 0. */
static uint32_t
composite(uint32_t a, uint32_t b)
{
	utf8proc_int32_t pair[3] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b, 0};

	if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1)
		return 0;
	return (uint32_t)pair[0];
}

/* Canonical composition in place. A composite stands for what its parts stood for. */
static void
compose(struct unicode_scratch *s)
{
	struct unicode_part *parts = s->parts;
	size_t kept = 0, starter = SIZE_MAX;
	int last_class = -1; /* of the character before, if one lies between it and the starter */

	for (size_t i = 0; i < s->count; i++) {
		struct unicode_part x = parts[i];
		uint32_t made = 0;

		if (starter != SIZE_MAX && last_class < (int)x.class)
			made = composite(parts[starter].point, x.point);
		if (made != 0) {
			parts[starter].point = made;
			parts[starter].change += x.change - 1;
			continue;
		}
		if (x.class == 0) {
			starter = kept;
			last_class = -1;
		} else {
			last_class = x.class;
		}
		parts[kept++] = x;
	}
	s->count = kept;
}

/* Writes the parts; input characters are used up as their changes say. */
static void
put_parts(struct pieces *p, const struct unicode_scratch *s, size_t start, size_t end)
{
	size_t at = start, n;
	char utf8[4];

	for (size_t i = 0; i < s->count; i++) {
		int32_t change = s->parts[i].change;
		size_t from = change > 0 ? (at > start ? at - 1 : start) : at;

		if (from >= end)
			from = end - 1;
		pieces_put(
		    p, utf8, utf8_put(utf8, s->parts[i].point), pieces_origin(p, from, from + 1));
		for (; change <= 0 && at < end; change++) {
			char_at(p->text + at, &n);
			at += n;
		}
	}
}

void
unicode_form_rewrite(
    struct pieces *p, struct unicode_scratch *s, size_t start, size_t end, enum unicode_form form)
{
	while (start < end && !p->failed) {
		size_t stable = unicode_form_stable(p->text, start, end, form), i = stable, n;

		pieces_copy(p, start, stable);
		if (stable == end)
			return;
		/* From the character before the first suspect to the next that is none. */
		char_at(p->text + i, &n);
		do {
			i += n;
			if (i == end)
				break;
		} while (is_suspect(char_at(p->text + i, &n), form));
		decompose(p, s, stable, i, form);
		if (p->failed)
			return;
		if (composes(form))
			compose(s);
		put_parts(p, s, stable, i);
		start = i;
	}
}
