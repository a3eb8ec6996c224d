#include "worker/tokenizer/vocab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "worker/text/bytes.h"

static uint64_t
hash_key(void)
{
	static uint64_t key; /* the same whichever thread wins: written once by the atomic below */
	uint64_t have = __atomic_load_n(&key, __ATOMIC_ACQUIRE), drawn;

	if (have != 0)
		return have;
	randombytes_buf(&drawn, sizeof(drawn));
	drawn |= 1;
	if (__atomic_compare_exchange_n(&key, &have, drawn, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return drawn;
	return have;
}

static uint64_t
fold(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* The shape of wyhash: 64 x 64 -> 128 bit multiplications, folded. */
uint64_t
hash_bytes(const char *data, size_t len)
{
	const uint64_t k1 = 0xa0761d6478bd642f, k2 = 0xe7037ed1a0b428db;
	uint64_t h = hash_key() ^ len, word;

	for (; len >= 8; data += 8, len -= 8) {
		memcpy(&word, data, 8);
		h = fold(h ^ word ^ k1, k2);
	}
	word = 0;
	memcpy(&word, data, len);
	return fold(fold(h ^ word ^ k1, k2), k1);
}

uint64_t
hash_number(uint64_t value)
{
	return fold(value ^ hash_key(), 0x9e3779b97f4a7c15);
}

int
vocab_init(struct vocab *v, size_t size, size_t bytes)
{
	size_t slots = 16;

	*v = (struct vocab){.size = size, .text_size = bytes};
	while (slots < size * 2)
		slots *= 2;
	v->mask = slots - 1;
	v->text = malloc(bytes + 1);
	v->entries = malloc((size + 1) * sizeof(*v->entries));
	v->slots = calloc(slots, sizeof(*v->slots));
	if (v->text == NULL || v->entries == NULL || v->slots == NULL) {
		vocab_fini(v);
		return -ENOMEM;
	}
	memset(v->entries, 0xff, (size + 1) * sizeof(*v->entries));
	return 0;
}

void
vocab_fini(struct vocab *v)
{
	free(v->text);
	free(v->entries);
	free(v->slots);
	*v = (struct vocab){0};
}

/* The slot that holds the text, or the free one where it would go. */
static struct vocab_slot *
slot_of(const struct vocab *v, uint64_t hash, const char *text, size_t len)
{
	for (size_t i = hash & v->mask;; i = (i + 1) & v->mask) {
		struct vocab_slot *s = &v->slots[i];
		const struct vocab_entry *e;

		if (s->id_plus_1 == 0)
			return s;
		if (s->hash != (uint32_t)(hash >> 32))
			continue;
		e = &v->entries[s->id_plus_1 - 1];
		if (e->length == len && memcmp(v->text + e->offset, text, len) == 0)
			return s;
	}
}

int
vocab_add(struct vocab *v, uint64_t hash, uint32_t id, const char *text, size_t len)
{
	struct vocab_slot *s = slot_of(v, hash, text, len);

	if (s->id_plus_1 != 0)
		return -EEXIST;
	if (v->entries[id].length != UINT32_MAX)
		return -EBUSY;
	memcpy(v->text + v->text_len, text, len);
	v->entries[id] = (struct vocab_entry){(uint32_t)v->text_len, (uint32_t)len};
	v->text_len += len;
	*s = (struct vocab_slot){id + 1, (uint32_t)(hash >> 32)};
	v->count++;
	return 0;
}

uint64_t
vocab_seek(const struct vocab *v, const char *text, size_t len)
{
	uint64_t hash = hash_bytes(text, len);

	__builtin_prefetch(&v->slots[hash & v->mask]);
	return hash;
}

void
vocab_approach(const struct vocab *v, uint64_t hash)
{
	uint32_t id = v->slots[hash & v->mask].id_plus_1;

	if (id != 0)
		__builtin_prefetch(&v->entries[id - 1]);
}

int32_t
vocab_found(const struct vocab *v, uint64_t hash, const char *text, size_t len)
{
	return (int32_t)slot_of(v, hash, text, len)->id_plus_1 - 1;
}

int32_t
vocab_find(const struct vocab *v, const char *text, size_t len)
{
	if (v->slots == NULL)
		return -1;
	return vocab_found(v, hash_bytes(text, len), text, len);
}

const char *
vocab_text(const struct vocab *v, int64_t id, size_t *len)
{
	if (id < 0 || (size_t)id >= v->size || v->entries[id].length == UINT32_MAX)
		return NULL;
	*len = v->entries[id].length;
	return v->text + v->entries[id].offset;
}
