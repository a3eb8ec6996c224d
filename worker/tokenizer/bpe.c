#include "worker/tokenizer/bpe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/text/bytes.h"
#include "worker/tokenizer/chars.h"

#define NONE UINT32_MAX

/* Up to this many symbols a scan over the ranks beats the heap. */
enum { SCAN_LIMIT = 40 };

int
bpe_reserve_merges(struct bpe *b, size_t merge_count)
{
	size_t slots = 16;

	while (slots < merge_count * 2)
		slots *= 2;
	b->mask = slots - 1;
	b->slots = malloc(slots * sizeof(*b->slots));
	b->merges = malloc((merge_count + 1) * sizeof(*b->merges));
	if (b->slots == NULL || b->merges == NULL)
		return -ENOMEM;
	memset(b->slots, 0xff, slots * sizeof(*b->slots));
	b->merge_count = 0;
	return 0;
}

static size_t
home_of(const struct bpe *b, uint32_t left, uint32_t right)
{
	return hash_number((uint64_t)left << 32 | right) & b->mask;
}

static struct bpe_slot *
slot_of(const struct bpe *b, uint32_t left, uint32_t right)
{
	size_t i = home_of(b, left, right);

	while (b->slots[i].left != NONE && (b->slots[i].left != left || b->slots[i].right != right))
		i = (i + 1) & b->mask;
	return &b->slots[i];
}

/* A merge on its way into the table: left, right, and what they make as the vocabulary has it, for
   which the right one loses its prefix. */
struct loading {
	const char *text[3];
	size_t len[3];
	uint64_t hash[3];
	int32_t id[3];
	char joined[128], *long_joined;
};

static void
begin_loading(const struct bpe *b, struct loading *l, const struct bpe_merge *m, size_t skip)
{
	size_t right = m->right_len >= skip ? m->right_len - skip : 0;

	l->text[0] = m->left;
	l->len[0] = m->left_len;
	l->text[1] = m->right;
	l->len[1] = m->right_len;
	l->len[2] = m->left_len + right;
	l->long_joined = l->len[2] > sizeof(l->joined) ? malloc(l->len[2]) : NULL;
	l->text[2] = l->long_joined != NULL ? l->long_joined : l->joined;
	if (l->len[2] > sizeof(l->joined) && l->long_joined == NULL)
		l->len[2] = 0; /* no memory: it is not found */
	if (l->len[2] > 0) {
		memcpy((char *)l->text[2], m->left, m->left_len);
		memcpy((char *)l->text[2] + m->left_len, m->right + (m->right_len - right), right);
	}
	for (int k = 0; k < 3; k++)
		l->hash[k] = vocab_seek(&b->vocab, l->text[k], l->len[k]);
}

size_t
bpe_add_merges(struct bpe *b, const struct bpe_merge *merges, size_t count)
{
	size_t skip = b->prefix != NULL ? strlen(b->prefix) : 0, i, k;
	struct loading batch[BPE_BATCH];

	for (i = 0; i < count; i++)
		begin_loading(b, &batch[i], &merges[i], skip);
	for (i = 0; i < count; i++)
		for (k = 0; k < 3; k++)
			vocab_approach(&b->vocab, batch[i].hash[k]);
	for (i = 0; i < count; i++) {
		struct loading *l = &batch[i];

		for (k = 0; k < 3; k++)
			l->id[k] = vocab_found(&b->vocab, l->hash[k], l->text[k], l->len[k]);
		free(l->long_joined);
		__builtin_prefetch(
		    &b->slots[home_of(b, (uint32_t)l->id[0], (uint32_t)l->id[1])], 1);
	}
	for (i = 0; i < count; i++) {
		uint32_t left = (uint32_t)batch[i].id[0], right = (uint32_t)batch[i].id[1];

		if (batch[i].id[0] < 0 || batch[i].id[1] < 0 || batch[i].id[2] < 0)
			break;
		*slot_of(b, left, right) = (struct bpe_slot){
		    left, right, (uint32_t)b->merge_count, (uint32_t)batch[i].id[2]};
		b->merges[b->merge_count++] = (struct bpe_pair){left, right};
	}
	return i;
}

void
bpe_find_bytes(struct bpe *b)
{
	for (unsigned i = 0; i < 256; i++) {
		char name[8], glyph[2];
		int len = snprintf(name, sizeof(name), "<0x%02X>", i);

		b->fallback_id[i] = vocab_find(&b->vocab, name, (size_t)len);
		b->glyph_id[i] = vocab_find(&b->vocab, glyph, glyph_put(glyph, (unsigned char)i));
	}
}

void
bpe_fini(struct bpe *b)
{
	vocab_fini(&b->vocab);
	free(b->merges);
	free(b->slots);
	free(b->prefix);
	free(b->suffix);
	*b = (struct bpe){0};
}

bool
bpe_takes_bytes(const struct bpe *b)
{
	if (b->prefix != NULL || b->suffix != NULL)
		return false;
	for (unsigned i = 0; i < 0xf5; i++)
		if (b->glyph_id[i] < 0 && i != 0xc0 && i != 0xc1)
			return false;
	return true;
}

void
bpe_scratch_fini(struct bpe_scratch *s)
{
	free(s->symbols);
	free(s->rank);
	free(s->next);
	free(s->previous);
	free(s->heap);
	free(s->text);
	*s = (struct bpe_scratch){0};
}

static uint32_t
rank_of(const struct bpe *b, const struct bpe_symbol *left, const struct bpe_symbol *right)
{
	const struct bpe_slot *slot = slot_of(b, left->id, right->id);

	return slot->left != NONE ? slot->rank : NONE;
}

/* Quadratic, and the fastest for words: the ranks lie in one or two cache lines. */
static void
merge_by_scan(const struct bpe *b, struct bpe_scratch *s)
{
	struct bpe_symbol *symbols = s->symbols;
	uint32_t rank[SCAN_LIMIT];
	size_t n = s->count;

	for (size_t i = 0; i + 1 < n; i++)
		rank[i] = rank_of(b, &symbols[i], &symbols[i + 1]);
	while (n > 1) {
		size_t best = 0;

		for (size_t i = 1; i + 1 < n; i++)
			if (rank[i] < rank[best])
				best = i;
		if (rank[best] == NONE)
			break;
		symbols[best].id = slot_of(b, symbols[best].id, symbols[best + 1].id)->id;
		symbols[best].length += symbols[best + 1].length;
		n--;
		memmove(&symbols[best + 1], &symbols[best + 2], (n - best - 1) * sizeof(*symbols));
		if (best + 1 < n) {
			memmove(&rank[best + 1], &rank[best + 2], (n - best - 1) * sizeof(*rank));
			rank[best] = rank_of(b, &symbols[best], &symbols[best + 1]);
		}
		if (best > 0)
			rank[best - 1] = rank_of(b, &symbols[best - 1], &symbols[best]);
	}
	s->count = n;
}

static void
heap_push(struct bpe_scratch *s, uint32_t rank, uint32_t symbol)
{
	uint64_t item = (uint64_t)rank << 32 | symbol;
	size_t i = s->heap_count++;

	for (; i > 0 && s->heap[(i - 1) / 2] > item; i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = item;
}

static uint64_t
heap_pop(struct bpe_scratch *s)
{
	uint64_t top = s->heap[0], item = s->heap[--s->heap_count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < s->heap_count) {
		if (child + 1 < s->heap_count && s->heap[child + 1] < s->heap[child])
			child++;
		if (s->heap[child] >= item)
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = item;
	return top;
}

/* Sets the rank of the pair that begins at symbol i, and queues it. */
static void
queue_pair(const struct bpe *b, struct bpe_scratch *s, uint32_t i)
{
	s->rank[i] = NONE;
	if (s->next[i] == NONE)
		return;
	s->rank[i] = rank_of(b, &s->symbols[i], &s->symbols[s->next[i]]);
	if (s->rank[i] != NONE)
		heap_push(s, s->rank[i], i);
}

static int
merge_by_heap(const struct bpe *b, struct bpe_scratch *s)
{
	size_t n = s->count, kept = 0;

	/* Each of the n - 1 merges queues two pairs at most, beside the n - 1 at the start. */
	if (!grow_array(&s->rank, &s->link_size[0], n, sizeof(*s->rank)) ||
	    !grow_array(&s->next, &s->link_size[1], n, sizeof(*s->next)) ||
	    !grow_array(&s->previous, &s->link_size[2], n, sizeof(*s->previous)) ||
	    !grow_array(&s->heap, &s->heap_size, 3 * n, sizeof(*s->heap)))
		return -ENOMEM;
	s->heap_count = 0;
	for (uint32_t i = 0; i < n; i++) {
		s->previous[i] = i == 0 ? NONE : i - 1;
		s->next[i] = i + 1 < n ? i + 1 : NONE;
		queue_pair(b, s, i);
	}
	while (s->heap_count > 0) {
		uint64_t top = heap_pop(s);
		uint32_t i = (uint32_t)top, right;

		/* A pair that changed since it was queued has another rank, or none. */
		if (s->symbols[i].length == 0 || s->rank[i] != (uint32_t)(top >> 32))
			continue;
		right = s->next[i];
		s->symbols[i].id = slot_of(b, s->symbols[i].id, s->symbols[right].id)->id;
		s->symbols[i].length += s->symbols[right].length;
		s->symbols[right].length = 0;
		s->next[i] = s->next[right];
		if (s->next[i] != NONE)
			s->previous[s->next[i]] = i;
		queue_pair(b, s, i);
		if (s->previous[i] != NONE)
			queue_pair(b, s, s->previous[i]);
	}
	for (size_t i = 0; i < n; i++)
		if (s->symbols[i].length != 0)
			s->symbols[kept++] = s->symbols[i];
	s->count = kept;
	return 0;
}

static void
add_symbol(struct bpe_scratch *s, int32_t id, size_t length)
{
	s->symbols[s->count++] = (struct bpe_symbol){(uint32_t)id, (uint32_t)length};
}

/* One symbol for each byte of a character that is no token: false if some have none. */
static bool
add_fallback(const struct bpe *b, struct bpe_scratch *s, const char *text, size_t len)
{
	if (!b->byte_fallback)
		return false;
	for (size_t i = 0; i < len; i++)
		if (b->fallback_id[(unsigned char)text[i]] < 0)
			return false;
	for (size_t i = 0; i < len; i++)
		add_symbol(s, b->fallback_id[(unsigned char)text[i]], 1);
	return true;
}

/* A character with the prefix and suffix that belong to it, in s->text; its length. */
static size_t
spell(
    const struct bpe *b, struct bpe_scratch *s, const char *text, size_t len, bool first, bool last)
{
	size_t n = 0;

	if (!first && b->prefix != NULL) {
		n = strlen(b->prefix);
		memcpy(s->text, b->prefix, n);
	}
	memcpy(s->text + n, text, len);
	n += len;
	if (last && b->suffix != NULL) {
		memcpy(s->text + n, b->suffix, strlen(b->suffix));
		n += strlen(b->suffix);
	}
	return n;
}

/* Characters to symbols. One that is no token becomes its bytes, or the unknown token, or nothing;
   the unknown token waits for its successor, so that a run can become one. */
static void
symbols_of_text(const struct bpe *b, struct bpe_scratch *s, const char *word, size_t len)
{
	size_t unknown = 0, n; /* length of the unknown token that waits */

	for (size_t i = 0; i < len; i += n) {
		size_t spelled;
		int32_t id;

		char_at(word + i, &n);
		spelled = spell(b, s, word + i, n, i == 0, i + n == len);
		id = vocab_find(&b->vocab, s->text, spelled);
		if (id >= 0) {
			if (unknown != 0)
				add_symbol(s, b->unknown, unknown);
			unknown = 0;
			add_symbol(s, id, n);
		} else if (add_fallback(b, s, s->text, spelled) || b->unknown < 0) {
			continue;
		} else if (unknown != 0 && !b->fuse_unknown) {
			add_symbol(s, b->unknown, unknown);
			unknown = n;
		} else {
			unknown += n;
		}
	}
	if (unknown != 0)
		add_symbol(s, b->unknown, unknown);
}

/* The id of the whole word, or -1. */
static int32_t
find_word(const struct bpe *b, struct bpe_scratch *s, const char *word, size_t len, bool raw)
{
	size_t n = 0;

	if (!raw)
		return vocab_find(&b->vocab, word, len);
	for (size_t i = 0; i < len; i++)
		n += glyph_put(s->text + n, (unsigned char)word[i]);
	return vocab_find(&b->vocab, s->text, n);
}

int
bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *word, size_t len, bool raw)
{
	size_t extra = (b->prefix != NULL ? strlen(b->prefix) : 0) +
		       (b->suffix != NULL ? strlen(b->suffix) : 0);
	size_t text = raw && b->ignore_merges ? 2 * len : 4 + extra;
	int32_t id;

	s->count = 0;
	/* A fallback spells the prefix and suffix too, for each character. */
	if (len >= UINT32_MAX / (1 + extra) ||
	    !grow_array(&s->symbols, &s->size, len * (1 + extra) + 1, sizeof(*s->symbols)) ||
	    !grow_array(&s->text, &s->text_size, text, 1))
		return -ENOMEM;
	if (b->ignore_merges && len > 0) {
		id = find_word(b, s, word, len, raw);
		if (id >= 0) {
			add_symbol(s, id, len);
			return 0;
		}
	}
	if (raw)
		for (size_t i = 0; i < len; i++)
			add_symbol(s, b->glyph_id[(unsigned char)word[i]], 1);
	else
		symbols_of_text(b, s, word, len);
	if (s->count > SCAN_LIMIT)
		return merge_by_heap(b, s);
	merge_by_scan(b, s);
	return 0;
}
