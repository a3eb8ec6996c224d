#include "worker/tokenizer/tokenizer_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/utf8.h"
#include "worker/tokenizer/chars.h"
#include "worker/tokenizer/decode.h"
#include "worker/tokenizer/normalize.h"
#include "worker/tokenizer/pretokenize.h"

enum { MAX_TEXT = 1 << 30 };

void
tokenizer_free(struct tokenizer *t)
{
	if (t == NULL)
		return;
	bpe_fini(&t->model);
	added_fini(&t->added);
	steps_fini(&t->normalizers);
	steps_fini(&t->pretokenizers);
	steps_fini(&t->posts);
	steps_fini(&t->decoders);
	free(t->normalizer_json);
	free(t->pretokenizer_json);
	free(t->post_json);
	free(t->decoder_json);
	free(t);
}

/* HF tokenizers ignores the ids in the file: an added token has its text's id in the vocabulary, or
   the next one, in the order of the file. One that says otherwise was not meant for its reader. */
static int
check_ids(const struct tokenizer *t, struct refusal *r)
{
	size_t next = t->model.vocab.count, len;

	for (size_t i = 0; i < t->added.count; i++) {
		const struct added_token *a = &t->added.list[i];
		int32_t id = vocab_find(&t->model.vocab, a->text, a->len);

		if (id >= 0 && (uint32_t)id != a->id)
			return refuse(r, 422,
			    "added_tokens: a token has the id %u, but %d in model.vocab", a->id,
			    id);
		if (id < 0 && (a->id != next || vocab_text(&t->model.vocab, a->id, &len) != NULL))
			return refuse(r, 422,
			    "added_tokens: a token has the id %u, but %zu would be the next one",
			    a->id, next);
		next += id < 0;
	}
	return 0;
}

int
tokenizer_finish(struct tokenizer *t, struct refusal *r)
{
	const struct steps *pre = &t->pretokenizers;

	bpe_find_bytes(&t->model);
	if (check_ids(t, r) != 0 || added_finish(&t->added, &t->normalizers, r) != 0)
		return -1;
	t->raw_bytes = pre->count > 0 && pre->list[pre->count - 1].kind == SPLIT_BYTE_LEVEL &&
		       bpe_takes_bytes(&t->model);
	t->vocabulary = t->model.vocab.size;
	if (t->added.count > 0 && t->added.list[t->added.count - 1].id >= t->vocabulary)
		t->vocabulary = t->added.list[t->added.count - 1].id + 1;
	return 0;
}

size_t
tokenizer_vocabulary(const struct tokenizer *t)
{
	return t->vocabulary;
}

int32_t
tokenizer_id(const struct tokenizer *t, const char *token)
{
	size_t len = strlen(token);

	for (size_t i = 0; i < t->added.count; i++)
		if (t->added.list[i].len == len && memcmp(t->added.list[i].text, token, len) == 0)
			return (int32_t)t->added.list[i].id;
	return vocab_find(&t->model.vocab, token, len);
}

struct encoding {
	const struct tokenizer *t;
	struct pieces pieces;
	struct bpe_scratch scratch;
	struct token *tokens;
	size_t count, size;
	struct refusal *r;
};

/* The space that a byte-level token may begin or end with, or whitespace as such. */
static bool
is_trimmed(uint32_t c)
{
	return c == glyph_of_byte(' ') || char_is_space(c);
}

/* Takes whitespace at a token's ends out of its range: ByteLevel's trim_offsets. text is the
   token's own, whose whitespace is counted; the range shrinks by as many characters. */
static void
trim(const struct encoding *e, const struct step *step, struct token *token, const char *text,
    size_t len)
{
	const char *original = e->pieces.original;
	size_t leading = 0, trailing = 0, n;

	for (size_t i = 0; i < len && is_trimmed(char_at(text + i, &n)); i += n)
		leading++;
	for (size_t i = len; i > 0; trailing++) {
		const char *last = char_before(text + i);

		if (!is_trimmed(char_at(last, &n)))
			break;
		i = (size_t)(last - text);
	}
	/* The first token's one space may be the one that add_prefix_space put there. */
	if (leading == 1 && step->prefix_space && (e->count == 0 || token->start == 0))
		leading = 0;
	for (; leading > 0 && token->start < token->end; leading--) {
		char_at(original + token->start, &n);
		token->start += (uint32_t)n;
	}
	for (; trailing > 0 && token->end > token->start; trailing--)
		token->end = (uint32_t)(char_before(original + token->end) - original);
}

static void
put_token(struct encoding *e, uint32_t id, struct range range, const char *text, size_t len)
{
	struct token *token = &e->tokens[e->count];

	*token = (struct token){(int32_t)id, range.from, range.to};
	for (size_t i = 0; i < e->t->posts.count; i++)
		trim(e, &e->t->posts.list[i], token, text, len);
	e->count++;
}

static bool
make_room(struct encoding *e, size_t more)
{
	return grow_array(&e->tokens, &e->size, e->count + more, sizeof(*e->tokens));
}

static int
encode_piece(struct encoding *e, const struct piece *piece)
{
	const struct tokenizer *t = e->t;
	const char *word = e->pieces.text + piece->start;
	size_t len = piece->end - piece->start, at = piece->start;

	if (piece->token >= 0) {
		if (!make_room(e, 1))
			return refuse_memory(e->r);
		put_token(e, (uint32_t)piece->token,
		    pieces_origin(&e->pieces, piece->start, piece->end), word, len);
		return 0;
	}
	if (bpe_encode(&t->model, &e->scratch, word, len, t->raw_bytes) != 0 ||
	    !make_room(e, e->scratch.count))
		return refuse_memory(e->r);
	for (size_t i = 0; i < e->scratch.count; i++) {
		const struct bpe_symbol *s = &e->scratch.symbols[i];
		size_t end = at + s->length, text_len = 0;
		const char *text = vocab_text(&t->model.vocab, s->id, &text_len);

		if (end > piece->end) /* the affixes of a model that has them were counted too */
			end = piece->end;
		put_token(e, s->id,
		    at < end ? pieces_origin(&e->pieces, at, end)
			     : (struct range){(uint32_t)end, (uint32_t)end},
		    text, text_len);
		at = end;
	}
	return 0;
}

static int
encode(struct encoding *e)
{
	const struct tokenizer *t = e->t;
	struct pieces *p = &e->pieces;

	if (added_cut(&t->added, p, false) != 0)
		return refuse_memory(e->r);
	if (normalize(&t->normalizers, p, e->r) != 0)
		return -1;
	if (added_cut(&t->added, p, true) != 0)
		return refuse_memory(e->r);
	if (pretokenize(&t->pretokenizers, p, t->raw_bytes, e->r) != 0)
		return -1;
	for (size_t i = 0; i < p->count; i++)
		if (encode_piece(e, &p->list[i]) != 0)
			return -1;
	return 0;
}

int
tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, struct token **tokens,
    size_t *count, struct refusal *r)
{
	struct encoding e = {.t = t, .r = r};
	size_t good = utf8_valid_prefix(text, len);
	int rc;

	*tokens = NULL;
	*count = 0;
	if (good != len)
		return refuse(r, 422, "the text is not well-formed UTF-8 at byte %zu", good);
	if (len >= MAX_TEXT)
		return refuse(r, 422, "the text has %zu bytes, less than 1 GiB are allowed", len);
	if (pieces_init(&e.pieces, text, len) != 0 || !make_room(&e, 1)) {
		pieces_fini(&e.pieces);
		return refuse_memory(r);
	}
	rc = encode(&e);
	pieces_fini(&e.pieces);
	bpe_scratch_fini(&e.scratch);
	if (rc != 0) {
		free(e.tokens);
		return -1;
	}
	*tokens = e.tokens;
	*count = e.count;
	return 0;
}

int
tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count, bool skip_special,
    char **text, size_t *len)
{
	struct decoding d = {0};
	struct bytes out = {0};
	struct refusal refusal; /* of a decoder's pattern; what is left to say is that it failed */
	int rc;

	*text = NULL;
	*len = 0;
	for (size_t i = 0; i < count; i++) {
		const struct added_token *a =
		    ids[i] >= 0 ? added_find(&t->added, (uint32_t)ids[i]) : NULL;
		const char *token = a != NULL ? a->match : NULL;
		size_t token_len = a != NULL ? a->match_len : 0;

		if (a == NULL)
			token = vocab_text(&t->model.vocab, ids[i], &token_len);
		if (token != NULL && !(skip_special && a != NULL && a->special_match))
			decoding_add(&d, token, token_len);
	}
	rc = decode(t->has_decoder ? &t->decoders : NULL, &d, &out, &refusal);
	decoding_fini(&d);
	bytes_put(&out, "", 1);
	if (rc != 0 || out.failed) {
		bytes_fini(&out);
		return -1;
	}
	*text = out.data;
	*len = out.len - 1;
	return 0;
}
