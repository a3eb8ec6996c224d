/*
 * Python's dict: keys in order of insertion, looked up by value (1, 1.0 and true are one key).
 * Small ones are searched, larger ones have an index. The variables of a rendering and namespaces
 * are dicts too.
 */
#ifndef WORKER_JINJA_JINJA_DICT_H
#define WORKER_JINJA_JINJA_DICT_H

#include "worker/jinja/jinja_value.h"

struct jinja_entry {
	struct jinja_value key, value;
	uint64_t hash;
};
struct jinja_dict {
	size_t count, size;
	struct jinja_entry *entries;
	uint32_t *index; /* of slots, entry + 1; NULL while small */
	size_t slots;	 /* a power of two */
};

/* An empty dict with room for `size` entries. */
struct jinja_dict *jinja_dict_new(struct jinja *j, size_t size);
/* The value of the key, or NULL. Fails on a key that Python cannot hash. */
struct jinja_value *jinja_dict_get(
    struct jinja *j, const struct jinja_dict *d, struct jinja_value key);
struct jinja_value *jinja_dict_get_text(
    struct jinja *j, const struct jinja_dict *d, const char *key);
/* Sets the key, which keeps its place where it was there. */
void jinja_dict_set(
    struct jinja *j, struct jinja_dict *d, struct jinja_value key, struct jinja_value value);
void jinja_dict_set_text(
    struct jinja *j, struct jinja_dict *d, const char *key, struct jinja_value value);
struct jinja_dict *jinja_dict_copy(struct jinja *j, const struct jinja_dict *d);
/* The entry as the tuple (key, value). */
struct jinja_value jinja_dict_item(struct jinja *j, const struct jinja_dict *d, size_t at);

#endif
