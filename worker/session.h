/*
 * One session: a base model, its adapter and optimizer, tokenizer and template, and the datums that
 * were rendered. Every call either does the whole of what it says or changes nothing and says why.
 */
#ifndef WORKER_SESSION_H
#define WORKER_SESSION_H

#include <stddef.h>

#include "ipc/message.h"
#include "ipc/refusal.h"

struct session;

/* Loads the model and starts a fresh adapter. *opened: views into the session. 0, or -1 with *r. */
int session_open(struct session **out, const struct message_open *settings,
    struct message_opened *opened, struct refusal *r);
void session_free(struct session *s);

/* Takes a state or a sampling artifact from fd (not consumed). A session that was told to choose
   its number format itself goes on with the state's. */
int session_load(struct session *s, enum artifact_kind kind, int fd, struct message_loaded *out,
    struct refusal *r);
/* Renders the body of a datums:render (sealed, not consumed), keeps the datums, and gives *answer,
   a sealed blob of u64 length, JSON answer, datums (the caller closes it). Where validation failed,
   returns -1 with r->text empty and *answer a blob with the JSON of the faults. */
int session_render(struct session *s, int body, int *answer, struct refusal *r);
/* Keeps datums that an earlier worker rendered: the blob that session_render gave. */
int session_keep(struct session *s, int blob, struct refusal *r);
/* One optimizer step over the datums named in `ids` (sealed: u32 count, wire strings). */
int session_train(struct session *s, const struct message_train *settings, int ids,
    struct message_trained *out, struct refusal *r);
/* Why passes are not CUDA graphs any more, though they were to be; else "". A view. */
const char *session_trouble(const struct session *s);
/* The losses of the datums named in `ids` (as session_train has them), adapter on and off; *answer:
   a sealed blob with the JSON answer of datums:evaluate. */
int session_evaluate(struct session *s, int ids, int *answer, struct refusal *r);
/* Writes an artifact to fd (not consumed). out->sha256 is a view into the session. */
int session_save(struct session *s, enum artifact_kind kind, int fd, struct message_saved *out,
    struct refusal *r);
/* Judges an artifact as session_load does, and takes nothing from it. */
int session_verify(const struct session *s, enum artifact_kind kind, int fd,
    struct message_verified *out, struct refusal *r);
/* Continues a text: body of samples:generate; *answer as in session_render, but JSON alone. */
int session_generate(struct session *s, int body, int *answer, struct refusal *r);

#endif
