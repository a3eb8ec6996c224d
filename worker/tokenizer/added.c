#include "worker/tokenizer/added.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/chars.h"
#include "worker/tokenizer/normalize.h"

static char *
copy(const char *text, size_t len)
{
	char *to = malloc(len + 1);

	if (to == NULL)
		return NULL;
	memcpy(to, text, len);
	to[len] = '\0';
	return to;
}

int
added_append(struct added *a, const struct added_token *token)
{
	struct added_token *to;

	if (!grow_array(&a->list, &a->size, a->count + 1, sizeof(*a->list)))
		return -ENOMEM;
	to = &a->list[a->count];
	*to = *token;
	to->match = NULL;
	to->text = copy(token->text, token->len);
	if (to->text == NULL)
		return -ENOMEM;
	a->count++;
	return 0;
}

void
added_fini(struct added *a)
{
	for (size_t i = 0; i < a->count; i++) {
		free(a->list[i].text);
		free(a->list[i].match);
	}
	free(a->list);
	free(a->raw.nodes);
	free(a->normalized.nodes);
	*a = (struct added){0};
}

static uint32_t *
trie_child(struct trie *t, uint32_t *from, unsigned char byte)
{
	while (*from != 0 && t->nodes[*from].byte != byte)
		from = &t->nodes[*from].sibling;
	return from;
}

/* 0, -EEXIST or -ENOMEM. */
static int
trie_add(struct trie *t, const char *text, size_t len, int32_t token)
{
	uint32_t at = 0;

	/* Node 0 is nobody, and all nodes are there before a pointer into them is taken. */
	if (!grow_array(&t->nodes, &t->size, t->count + len + 1, sizeof(*t->nodes)))
		return -ENOMEM;
	if (t->count == 0)
		t->count = 1;
	for (size_t i = 0; i < len; i++) {
		unsigned char byte = (unsigned char)text[i];
		uint32_t *child =
		    trie_child(t, i == 0 ? &t->first[byte] : &t->nodes[at].child, byte);

		if (*child == 0) {
			*child = (uint32_t)t->count;
			t->nodes[t->count++] = (struct trie_node){.token = -1, .byte = byte};
		}
		at = *child;
	}
	if (t->nodes[at].token >= 0)
		return -EEXIST;
	t->nodes[at].token = token;
	return 0;
}

/* The longest token at text, which ends at end: its index or -1. */
static int32_t
trie_longest(const struct trie *t, const char *text, const char *end, size_t *len)
{
	uint32_t at = t->first[(unsigned char)*text];
	int32_t best = -1;

	for (size_t i = 1; at != 0; i++) {
		uint32_t next;

		if (t->nodes[at].token >= 0) {
			best = t->nodes[at].token;
			*len = i;
		}
		if (text + i == end)
			break;
		next = t->nodes[at].child;
		while (next != 0 && t->nodes[next].byte != (unsigned char)text[i])
			next = t->nodes[next].sibling;
		at = next;
	}
	return best;
}

static int
by_id(const void *a, const void *b)
{
	const struct added_token *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Decoding skips by text, as HF tokenizers does: by what is looked for, among the special texts. */
static void
mark_special(struct added *a)
{
	for (size_t i = 0; i < a->count; i++) {
		struct added_token *t = &a->list[i];

		t->special_match =
		    t->special && t->match_len == t->len && memcmp(t->match, t->text, t->len) == 0;
	}
}

static int
finish_token(struct added *a, size_t i, const struct steps *normalizers, struct refusal *r)
{
	struct added_token *t = &a->list[i];
	struct bytes match = {0};
	int rc = 0;

	if (i > 0 && t->id == t[-1].id)
		return refuse(r, 422, "added_tokens: two tokens have the id %u", t->id);
	if (t->normalized)
		rc = normalize_text(normalizers, t->text, t->len, &match, r);
	else
		bytes_put(&match, t->text, t->len);
	if (rc == 0 && match.failed)
		rc = refuse_memory(r);
	t->match = match.data;
	t->match_len = match.len;
	if (rc != 0)
		return -1;
	if (t->match_len == 0)
		return refuse(r, 422, "added_tokens: the token with the id %u is empty", t->id);
	rc = trie_add(t->normalized ? &a->normalized : &a->raw, t->match, t->match_len, (int32_t)i);
	if (rc == -EEXIST)
		return refuse(
		    r, 422, "added_tokens: the token with the id %u is there twice", t->id);
	return rc != 0 ? refuse_memory(r) : 0;
}

int
added_finish(struct added *a, const struct steps *normalizers, struct refusal *r)
{
	if (a->count > 0)
		qsort(a->list, a->count, sizeof(*a->list), by_id);
	for (size_t i = 0; i < a->count; i++)
		if (finish_token(a, i, normalizers, r) != 0)
			return -1;
	mark_special(a);
	return 0;
}

const struct added_token *
added_find(const struct added *a, uint32_t id)
{
	struct added_token key = {.id = id};

	if (a->count == 0)
		return NULL;
	return bsearch(&key, a->list, a->count, sizeof(*a->list), by_id);
}

/* Whether the token's neighbours let it stand: with single_word no word character may touch it. */
static bool
stands_alone(const struct added_token *t, const char *begin, const char *start, const char *end,
    const char *stop)
{
	size_t n;

	if (!t->single_word)
		return true;
	return (start == begin || !char_is_word(char_at(char_before(start), &n))) &&
	       (end == stop || !char_is_word(char_at(end, &n)));
}

/* One piece: texts between matches, and the matches with the whitespace they swallow. */
static void
cut_piece(const struct added *a, const struct trie *t, struct pieces *p, const struct piece *piece)
{
	const char *begin = p->text + piece->start, *stop = p->text + piece->end;
	const char *done = begin, *at = begin;
	size_t len = 0, n;

	while (at < stop) {
		int32_t index = trie_longest(t, at, stop, &len);
		const struct added_token *token = index >= 0 ? &a->list[index] : NULL;
		const char *start = at, *end = at + len;

		if (token == NULL) {
			at++;
			continue;
		}
		at = end;
		if (!stands_alone(token, begin, start, end, stop))
			continue;
		while (
		    token->lstrip && start > done && char_is_space(char_at(char_before(start), &n)))
			start = char_before(start);
		while (token->rstrip && end < stop && char_is_space(char_at(end, &n)))
			end += n;
		/* Where the match before swallowed this one's beginning, both keep their ranges,
		   but lstrip never reaches into it. */
		if (token->lstrip && start < done)
			start = done < end ? done : end;
		if (start > done)
			pieces_cut(p, (size_t)(done - p->text), (size_t)(start - p->text), -1);
		pieces_cut(
		    p, (size_t)(start - p->text), (size_t)(end - p->text), (int32_t)token->id);
		done = end;
	}
	pieces_cut(p, (size_t)(done - p->text), piece->end, -1);
}

int
added_cut(const struct added *a, struct pieces *p, bool normalized)
{
	const struct trie *t = normalized ? &a->normalized : &a->raw;

	if (t->count == 0)
		return 0;
	for (size_t i = 0; i < p->count; i++) {
		if (p->list[i].token >= 0)
			pieces_keep(p, i);
		else
			cut_piece(a, t, p, &p->list[i]);
	}
	return pieces_cut_done(p);
}
