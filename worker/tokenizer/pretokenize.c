#include "worker/tokenizer/pretokenize.h"

#include <string.h>

#include "worker/tokenizer/chars.h"
#include "worker/tokenizer/normalize.h"

const char pretokenize_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct pass {
	struct pieces *p;
	struct splitter splitter;
	struct refusal *r;
};

/* One piece by a pattern. What is found goes straight to the pieces where the behaviour lets it. */
static int
split_pattern(struct pass *pass, const struct piece *piece, const struct pattern *pattern,
    enum behaviour behaviour, bool invert)
{
	struct pattern_scan scan = {
	    .text = pass->p->text + piece->start, .len = piece->end - piece->start};
	size_t done = 0, base = piece->start;
	bool direct = behaviour == BEHAVIOUR_ISOLATED;
	int rc;

	while ((rc = pattern_next(pattern, pass->p->run, &scan, pass->r)) == 1) {
		if (direct) {
			pieces_cut(pass->p, base + done, base + scan.start, -1);
			pieces_cut(pass->p, base + scan.start, base + scan.end, -1);
		} else {
			if (done != scan.start)
				splitter_add(
				    &pass->splitter, base + done, base + scan.start, invert);
			splitter_add(&pass->splitter, base + scan.start, base + scan.end, !invert);
		}
		done = scan.end;
	}
	if (done != scan.len)
		splitter_add(&pass->splitter, base + done, base + scan.len, invert);
	splitter_cut(&pass->splitter, pass->p, behaviour);
	return rc;
}

static bool
is_delimiter(const struct step *step, uint32_t c)
{
	switch (step->kind) {
	case SPLIT_DIGITS:
		return char_is_numeric(c);
	case SPLIT_PUNCTUATION:
		return char_is_punctuation(c);
	case SPLIT_AT_WHITESPACE:
		return char_is_space(c);
	default:
		return c == step->point;
	}
}

/* One piece by a class of characters, each of which is a match of its own. */
static void
split_chars(
    struct pass *pass, const struct piece *piece, const struct step *step, enum behaviour behaviour)
{
	size_t done = piece->start;

	for (size_t i = piece->start, n; i < piece->end; i += n) {
		if (!is_delimiter(step, char_at(pass->p->text + i, &n)))
			continue;
		if (done != i)
			splitter_add(&pass->splitter, done, i, false);
		splitter_add(&pass->splitter, i, i + n, true);
		done = i + n;
	}
	if (done != piece->end)
		splitter_add(&pass->splitter, done, piece->end, false);
	splitter_cut(&pass->splitter, pass->p, behaviour);
}

/* Runs of word characters, and runs of what is neither word nor space. */
static void
split_words(struct pass *pass, const struct piece *piece)
{
	const char *text = pass->p->text;
	size_t start = piece->start;
	int kind = 0; /* of the run at start: 0 spaces, 1 word, 2 signs */

	for (size_t i = piece->start, n; i < piece->end; i += n) {
		uint32_t c = char_at(text + i, &n);
		int now = char_is_word(c) ? 1 : char_is_space(c) ? 0 : 2;

		if (now == kind)
			continue;
		if (kind != 0)
			pieces_cut(pass->p, start, i, -1);
		start = i;
		kind = now;
	}
	if (kind != 0)
		pieces_cut(pass->p, start, piece->end, -1);
}

static int
cut_piece(struct pass *pass, const struct piece *piece, const struct step *step)
{
	switch (step->kind) {
	case SPLIT_PATTERN:
		return split_pattern(pass, piece, step->pattern, step->behaviour, step->invert);
	case SPLIT_BYTE_LEVEL:
		return split_pattern(pass, piece, step->pattern, BEHAVIOUR_ISOLATED, false);
	case SPLIT_DIGITS:
		split_chars(pass, piece, step,
		    step->individual ? BEHAVIOUR_ISOLATED : BEHAVIOUR_CONTIGUOUS);
		return 0;
	case SPLIT_PUNCTUATION:
		split_chars(pass, piece, step, step->behaviour);
		return 0;
	case SPLIT_AT_WHITESPACE:
	case SPLIT_DELIMITER:
		split_chars(pass, piece, step, BEHAVIOUR_REMOVED);
		return 0;
	case SPLIT_METASPACE:
		split_chars(pass, piece, step, BEHAVIOUR_MERGED_WITH_NEXT);
		return 0;
	case SPLIT_WHITESPACE:
		split_words(pass, piece);
		return 0;
	default:
		return refuse(pass->r, 500, "step %d is no pre-tokenizer", (int)step->kind);
	}
}

/* The pass in which pieces are cut. */
static int
cut_all(struct pass *pass, const struct step *step)
{
	struct pieces *p = pass->p;

	for (size_t i = 0; i < p->count; i++) {
		if (p->list[i].token >= 0)
			pieces_keep(p, i);
		else if (cut_piece(pass, &p->list[i], step) != 0)
			return -1;
	}
	return pieces_cut_done(p) != 0 ? pieces_refuse(p, pass->r) : 0;
}

/* Spaces become the replacement, which is also put in front where it is not there already. */
static void
rewrite_metaspace(struct pieces *p, const struct piece *piece, const struct step *step)
{
	char first = p->text[piece->start];
	bool begins =
	    first == ' ' || (piece->end - piece->start >= step->text_len &&
				memcmp(p->text + piece->start, step->text, step->text_len) == 0);

	if (step->prefix_space && !begins &&
	    (!step->first_only || pieces_origin(p, piece->start, piece->end).from == 0))
		pieces_put(p, step->text, step->text_len,
		    pieces_origin(p, piece->start, piece->start + 1));
	for (size_t i = piece->start, done = i; i <= piece->end; i++) {
		if (i < piece->end && p->text[i] != ' ')
			continue;
		pieces_copy(p, done, i);
		if (i < piece->end)
			pieces_put(p, step->text, step->text_len, pieces_origin(p, i, i + 1));
		done = i + 1;
	}
}

enum rewriting { ADD_SPACE, TO_METASPACE, TO_GLYPHS };

static int
rewrite_all(struct pass *pass, const struct step *step, enum rewriting how)
{
	struct pieces *p = pass->p;

	for (size_t i = 0; i < p->count; i++) {
		const struct piece *piece = &p->list[i];

		pieces_rewrite_begin(p);
		if (piece->token >= 0 || (how == ADD_SPACE && p->text[piece->start] == ' '))
			pieces_copy(p, piece->start, piece->end);
		else if (how == ADD_SPACE)
			rewrite_with_prefix(p, piece->start, piece->end, " ", 1);
		else if (how == TO_METASPACE)
			rewrite_metaspace(p, piece, step);
		else
			rewrite_in_glyphs(p, piece->start, piece->end);
		pieces_rewrite_end(p, piece->token);
	}
	return pieces_rewrite_done(p) != 0 ? pieces_refuse(p, pass->r) : 0;
}

static int
run_step(struct pass *pass, const struct step *step, bool keep_bytes)
{
	int rc = 0;

	if (step->kind == SPLIT_BYTE_LEVEL) {
		if (step->prefix_space)
			rc = rewrite_all(pass, step, ADD_SPACE);
		if (rc == 0 && step->pattern != NULL)
			rc = cut_all(pass, step);
		if (rc == 0 && !keep_bytes)
			rc = rewrite_all(pass, step, TO_GLYPHS);
		return rc;
	}
	if (step->kind == SPLIT_METASPACE) {
		rc = rewrite_all(pass, step, TO_METASPACE);
		return rc == 0 && step->split ? cut_all(pass, step) : rc;
	}
	return cut_all(pass, step);
}

int
pretokenize(const struct steps *steps, struct pieces *p, bool raw_bytes, struct refusal *r)
{
	struct pass pass = {.p = p, .r = r};
	int rc = 0;

	for (size_t i = 0; i < steps->count && rc == 0; i++)
		rc = run_step(&pass, &steps->list[i], raw_bytes && i + 1 == steps->count);
	splitter_fini(&pass.splitter);
	return rc;
}
