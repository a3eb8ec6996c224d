#include "supervisor/session/kept_find.h"

#include <errno.h>
#include <stdlib.h>

#include "supervisor/session/kept_clock.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

bool
kept_is_over(const struct stepd *s, const struct kept_answer *answer)
{
	return kept_clock_seconds() - answer->at > (int64_t)s->config->key_lifetime;
}

int
kept_find(struct stepd *s, const char *id, const char *key, struct kept_answer *answer, void **data)
{
	uint8_t storage[KEPT_KEY_MAX];
	size_t len = kept_answer_key(storage, id, key);
	int error = store_get(s->store, STORE_ANSWERS, storage, len, data, &len);

	if (error == 0)
		error = kept_answer_get(answer, *data, len);
	if (error == 0 && kept_is_over(s, answer))
		error = -ENOENT;
	if (error != 0) {
		free(*data);
		*data = NULL;
	}
	return error;
}
