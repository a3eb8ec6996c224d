/*
 * Steps as tokenizer.json has them: {"type": "NFC"}, {"type": "Sequence", "normalizers": [...]}. A
 * type or setting that is not known is refused by its path.
 */
#ifndef WORKER_TOKENIZER_STEPS_JSON_H
#define WORKER_TOKENIZER_STEPS_JSON_H

#include "ipc/json.h"
#include "worker/tokenizer/step.h"

enum steps_part { PART_NORMALIZER, PART_PRE_TOKENIZER, PART_POST_PROCESSOR, PART_DECODER };

/* "normalizer", "pre_tokenizer", "post_processor", "decoder". */
extern const char *const steps_part_names[];

/* Appends the steps that value, of that part, describes; null is none. On failure what was appended
   stays, for steps_fini. 0, or -1 with *r filled. */
int steps_read(struct steps *s, enum steps_part part, struct json value, struct refusal *r);

#endif
