/*
 * JSON documents as values of the template language. Strings stay where the document has them, so
 * the document must outlive the rendering.
 */
#ifndef WORKER_JINJA_JINJA_DATA_H
#define WORKER_JINJA_JINJA_DATA_H

#include "ipc/json.h"
#include "worker/jinja/jinja_value.h"

struct jinja_value jinja_from_json(struct jinja *j, struct json v);
/* Members of an object into a dict; null ones are left out where drop_null. */
void jinja_dict_from_json(
    struct jinja *j, struct jinja_dict *d, struct json object, bool drop_null);
/* The first `count` messages, as transformers hands them to templates; parse: tool-call arguments
   that hold an object are given as that object. */
struct jinja_value jinja_messages(struct jinja *j, struct json messages, size_t count, bool parse);

#endif
