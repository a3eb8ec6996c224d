#include "worker/tokenizer/step.h"

#include <stdlib.h>

void
steps_fini(struct steps *s)
{
	for (size_t i = 0; i < s->count; i++) {
		pattern_free(s->list[i].pattern);
		free(s->list[i].text);
	}
	free(s->list);
	*s = (struct steps){0};
}
