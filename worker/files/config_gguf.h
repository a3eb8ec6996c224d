/*
 * Sizes and settings of a model from GGUF metadata, private to config.c: the keys below
 * "<architecture>.", each of which has to be one that is understood.
 */
#ifndef WORKER_FILES_CONFIG_GGUF_H
#define WORKER_FILES_CONFIG_GGUF_H

#include "worker/files/config.h"

/* Fills c, whose family is set, from the keys of architecture `arch`. 0 or -1 with *r. */
int config_read_gguf(
    struct model_config *c, const struct gguf *g, const char *arch, struct refusal *r);
/* config.c's last step, for either kind of file: checks the sizes against each other, makes the
   rows of the layers (zeroed), sets score_scale. 0 or -1 with *r. */
int config_finish(struct model_config *c, struct refusal *r);

#endif
