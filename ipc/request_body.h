/*
 * A request body as a whole, before any field of it is looked at: the same rules in both programs.
 */
#ifndef IPC_REQUEST_BODY_H
#define IPC_REQUEST_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include "ipc/fault.h"
#include "ipc/json.h"

/* Is that content type (NULL: none) application/json or application/...+json? In any case,
   parameters ignored. */
bool request_body_is_json(const char *content_type);

/* Parses a body whose root is then an object. is_json: does its content type say JSON? 0 and *out
   (json_free), or -EINVAL with the fault: 422 missing (empty, null), model_attributes_type (not
   JSON, no object), json_invalid (its place in characters); 400 ill-formed UTF-8; 413 nested too
   deep or too many values; 422 what JSON can say and text or numbers cannot (NUL, lone
   surrogates, NaN). */
int request_body_parse(
    struct json_doc **out, bool is_json, const void *data, size_t len, struct faults *f);

#endif
