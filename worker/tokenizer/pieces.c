#include "worker/tokenizer/pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/tokenizer/chars.h"

int
pieces_init(struct pieces *p, const char *text, size_t len)
{
	*p = (struct pieces){.original = text, .original_len = len, .text = text, .text_len = len};
	p->run = pattern_run_new();
	if (p->run == NULL || !grow_array(&p->list, &p->size, 1, sizeof(*p->list))) {
		pieces_fini(p);
		return -ENOMEM;
	}
	if (len > 0)
		p->list[p->count++] = (struct piece){0, (uint32_t)len, -1};
	return 0;
}

void
pieces_fini(struct pieces *p)
{
	pattern_run_free(p->run);
	free(p->list);
	free(p->next_list);
	free(p->origin);
	free(p->next_origin);
	bytes_fini(&p->fresh);
	bytes_fini(&p->next);
	*p = (struct pieces){0};
}

int
pieces_refuse(const struct pieces *p, struct refusal *r)
{
	if (!p->overgrown)
		return refuse_memory(r);
	return refuse(r, 422, "the tokenizer's normalizers make the text more than %d times longer",
	    (int)PIECES_GROWTH);
}

struct range
pieces_origin(const struct pieces *p, size_t start, size_t end)
{
	const char *first, *last;

	if (p->origin != NULL)
		return (struct range){p->origin[start].from, p->origin[end - 1].to};
	/* The whole characters that the bytes belong to. */
	first = p->text + start;
	while (first > p->text && ((unsigned char)*first & 0xc0) == 0x80)
		first--;
	last = p->text + end;
	while (last < p->text + p->text_len && ((unsigned char)*last & 0xc0) == 0x80)
		last++;
	return (struct range){(uint32_t)(first - p->text), (uint32_t)(last - p->text)};
}

static void
next_piece(struct pieces *p, size_t start, size_t end, int32_t token)
{
	if (start == end || p->failed)
		return;
	if (!grow_array(&p->next_list, &p->next_size, p->next_count + 1, sizeof(*p->next_list))) {
		p->failed = true;
		return;
	}
	p->next_list[p->next_count++] = (struct piece){(uint32_t)start, (uint32_t)end, token};
}

void
pieces_keep(struct pieces *p, size_t index)
{
	next_piece(p, p->list[index].start, p->list[index].end, p->list[index].token);
}

void
pieces_cut(struct pieces *p, size_t start, size_t end, int32_t token)
{
	next_piece(p, start, end, token);
}

int
pieces_cut_done(struct pieces *p)
{
	struct piece *list = p->list;
	size_t size = p->size;

	if (p->failed)
		return -ENOMEM;
	p->list = p->next_list;
	p->size = p->next_size;
	p->count = p->next_count;
	p->next_list = list;
	p->next_size = size;
	p->next_count = 0;
	return 0;
}

void
pieces_rewrite_begin(struct pieces *p)
{
	/* The piece's start waits in an entry that pieces_rewrite_end completes. */
	if (!grow_array(&p->next_list, &p->next_size, p->next_count + 1, sizeof(*p->next_list))) {
		p->failed = true;
		return;
	}
	p->next_list[p->next_count].start = (uint32_t)p->next.len;
}

static bool
room(struct pieces *p, size_t len)
{
	size_t limit = p->original_len * PIECES_GROWTH + PIECES_GROWTH_FREE;

	if (p->next.len + len > (limit < INT32_MAX ? limit : INT32_MAX))
		p->overgrown = true;
	if (p->failed || p->overgrown || !bytes_reserve(&p->next, len) ||
	    !grow_array(
		&p->next_origin, &p->next_origin_size, p->next.len + len, sizeof(*p->next_origin)))
		p->failed = true;
	return !p->failed;
}

void
pieces_copy(struct pieces *p, size_t start, size_t end)
{
	struct range *to;

	if (start == end || !room(p, end - start))
		return;
	to = p->next_origin + p->next.len;
	if (p->origin != NULL) {
		memcpy(to, p->origin + start, (end - start) * sizeof(*to));
	} else {
		for (size_t i = start, n; i < end; i += n) {
			char_at(p->text + i, &n);
			for (size_t j = 0; j < n; j++)
				*to++ = (struct range){(uint32_t)i, (uint32_t)(i + n)};
		}
	}
	bytes_put(&p->next, p->text + start, end - start);
}

void
pieces_put(struct pieces *p, const char *data, size_t len, struct range origin)
{
	if (len == 0 || !room(p, len))
		return;
	for (size_t i = 0; i < len; i++)
		p->next_origin[p->next.len + i] = origin;
	bytes_put(&p->next, data, len);
}

void
pieces_rewrite_end(struct pieces *p, int32_t token)
{
	struct piece *piece;

	if (p->failed)
		return;
	piece = &p->next_list[p->next_count];
	piece->end = (uint32_t)p->next.len;
	piece->token = token;
	if (piece->end > piece->start)
		p->next_count++;
}

int
pieces_rewrite_done(struct pieces *p)
{
	struct bytes text = p->fresh;
	struct range *origin = p->origin;
	size_t size = p->origin_size;

	if (p->failed)
		return -ENOMEM;
	if (p->next.len == 0) { /* nothing is left of the text */
		p->text_len = 0;
		return pieces_cut_done(p);
	}
	p->fresh = p->next;
	p->origin = p->next_origin;
	p->origin_size = p->next_origin_size;
	p->text = p->fresh.data;
	p->text_len = p->fresh.len;
	p->next = text;
	p->next.len = 0;
	p->next_origin = origin;
	p->next_origin_size = size;
	return pieces_cut_done(p);
}

void
splitter_fini(struct splitter *s)
{
	free(s->list);
	*s = (struct splitter){0};
}

void
splitter_add(struct splitter *s, size_t start, size_t end, bool match)
{
	if (!grow_array(&s->list, &s->size, s->count + 1, sizeof(*s->list))) {
		s->failed = true;
		return;
	}
	s->list[s->count++] = (struct stretch){(uint32_t)start, (uint32_t)end, match};
}

/* Joins each match to the stretch before it (forward), or after it, unless that one is a match. */
static void
join_matches(struct splitter *s, bool forward)
{
	bool was_match = false;
	size_t kept = 0; /* joined stretches, written from the side where the walk began */

	for (size_t i = 0; i < s->count; i++) {
		struct stretch x = s->list[forward ? i : s->count - 1 - i];
		struct stretch *last =
		    kept > 0 ? &s->list[forward ? kept - 1 : s->count - kept] : NULL;

		if (x.match && !was_match && last != NULL) {
			if (forward)
				last->end = x.end;
			else
				last->start = x.start;
		} else {
			s->list[forward ? kept : s->count - 1 - kept] = x;
			kept++;
		}
		was_match = x.match;
	}
	if (!forward)
		memmove(s->list, s->list + (s->count - kept), kept * sizeof(*s->list));
	s->count = kept;
}

static void
join_equals(struct splitter *s)
{
	bool was_match = false;
	size_t kept = 0;

	for (size_t i = 0; i < s->count; i++) {
		struct stretch x = s->list[i];

		if (x.match == was_match && kept > 0)
			s->list[kept - 1].end = x.end;
		else
			s->list[kept++] = x;
		was_match = x.match;
	}
	s->count = kept;
}

void
splitter_cut(struct splitter *s, struct pieces *p, enum behaviour behaviour)
{
	if (behaviour == BEHAVIOUR_CONTIGUOUS)
		join_equals(s);
	else if (behaviour == BEHAVIOUR_MERGED_WITH_PREVIOUS)
		join_matches(s, true);
	else if (behaviour == BEHAVIOUR_MERGED_WITH_NEXT)
		join_matches(s, false);
	for (size_t i = 0; i < s->count; i++)
		if (behaviour != BEHAVIOUR_REMOVED || !s->list[i].match)
			pieces_cut(p, s->list[i].start, s->list[i].end, -1);
	s->count = 0;
	p->failed |= s->failed;
}
