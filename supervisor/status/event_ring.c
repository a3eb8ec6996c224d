#include "supervisor/status/event_ring.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 8 };

#define EVENT_NAME(name, text, ...) text,
static const char *const names[] = {EVENT_LIST(EVENT_NAME)};
#undef EVENT_NAME

static struct told *
entry(const struct event_ring *ring, size_t i)
{
	return &ring->entries[(ring->first + i) % ring->size];
}

/* To `size` places, with the newest that fit. 0 or -1 with the ring as it was. */
static int
resize(struct event_ring *ring, size_t size)
{
	struct told *entries = calloc(size, sizeof(*entries));
	size_t kept = ring->count < size ? ring->count : size;

	if (entries == NULL)
		return -1;
	for (size_t i = 0; i < kept; i++)
		entries[i] = *entry(ring, ring->count - kept + i);
	if (kept < ring->count)
		ring->lost = entry(ring, ring->count - kept - 1)->id;
	free(ring->entries);
	*ring = (struct event_ring){
	    .entries = entries, .size = size, .count = kept, .lost = ring->lost};
	return 0;
}

void
event_ring_add(struct event_ring *ring, const struct told *told)
{
	if (ring->count == ring->size && ring->size < EVENTS_KEPT &&
	    resize(ring, ring->size == 0 ? FIRST_SIZE : 2 * ring->size) != 0 && ring->size == 0) {
		ring->lost = told->id;
		return;
	}
	if (ring->count == ring->size) {
		ring->lost = entry(ring, 0)->id;
		ring->first = (ring->first + 1) % ring->size;
		ring->count--;
	}
	*entry(ring, ring->count++) = *told;
}

const struct told *
event_ring_after(const struct event_ring *ring, uint64_t id)
{
	size_t low = 0, high = ring->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (entry(ring, middle)->id > id)
			high = middle;
		else
			low = middle + 1;
	}
	return low < ring->count ? entry(ring, low) : NULL;
}

uint64_t
event_ring_newest(const struct event_ring *ring)
{
	return ring->count > 0 ? entry(ring, ring->count - 1)->id : ring->lost;
}

void
event_ring_shrink(struct event_ring *ring, size_t count)
{
	if (ring->size > count)
		resize(ring, count);
}

void
event_ring_fini(struct event_ring *ring)
{
	free(ring->entries);
	*ring = (struct event_ring){0};
}

static void
put_body(struct json_writer *w, const struct told *t)
{
	char hex[2 * sizeof(t->save.sha256) + 1];

	switch (t->kind) {
	case EVENT_STEP:
		json_put_double(w, "loss", t->trained.loss);
		json_put_double(w, "gradient_norm", t->trained.gradient_norm);
		json_put_uint(w, "input_token_count", t->trained.input_tokens);
		json_put_uint(w, "supervised_token_count", t->trained.supervised_tokens);
		break;
	case EVENT_SAVE:
		json_put_string(
		    w, "kind", t->save.artifact == ARTIFACT_STATE ? "state" : "sampling");
		json_put_string(w, "sha256",
		    sodium_bin2hex(hex, sizeof(hex), t->save.sha256, sizeof(t->save.sha256)));
		json_put_uint(w, "size_bytes", t->save.size);
		break;
	case EVENT_RESTART:
		json_put_string(w, "class", t->restart.class);
		json_put_uint(w, "replayed_steps", t->restart.replayed);
		if (t->restart.resend_to > t->step) {
			json_write_key(w, "steps_to_send_again");
			json_write_object(w);
			json_put_uint(w, "from", t->step + 1);
			json_put_uint(w, "to", t->restart.resend_to);
			json_write_object_end(w);
		}
		break;
	case EVENT_STATE:
		json_put_string(w, "state", t->state.state);
		json_put_text(w, "reason", t->state.reason);
		break;
	}
}

char *
told_text(const struct told *t, size_t *len)
{
	struct json_writer w;
	char *text = NULL;
	int n = -1;

	json_writer_init(&w);
	json_write_object(&w);
	json_put_uint(&w, "step", t->step);
	put_body(&w, t);
	json_put_time(&w, "at", t->at);
	json_write_object_end(&w);
	if (json_writer_text(&w, NULL) != NULL)
		n = asprintf(&text, "id: %llu\nevent: %s\ndata: %s\n\n", (unsigned long long)t->id,
		    names[t->kind], json_writer_text(&w, NULL));
	json_writer_fini(&w);
	*len = n < 0 ? 0 : (size_t)n;
	return n < 0 ? NULL : text;
}
