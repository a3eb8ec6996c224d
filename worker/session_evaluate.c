/*
 * A session's losses over datums it rendered, adapter on and off: looked at, nothing learnt.
 */
#include <stdlib.h>

#include "ipc/blob.h"
#include "ipc/json_write.h"
#include "worker/session_state.h"
#include "worker/train/batch.h"
#include "worker/train/evaluate.h"

struct losses {
	const struct datum **datums;
	size_t count;
	double *sums, *base_sums; /* (count): of log p; one allocation */
	struct trainer_evaluation all, base;
};

static int
no_memory(struct refusal *r)
{
	return refuse(r, 507, "out of memory while evaluating");
}

static int
losses_take(struct losses *l, struct session *s, struct refusal *r)
{
	l->sums = calloc(l->count, 2 * sizeof(*l->sums));
	if (l->sums == NULL)
		return no_memory(r);
	l->base_sums = l->sums + l->count;
	if (trainer_evaluate(s->trainer, l->datums, l->count, true, l->sums, NULL, &l->all, r) != 0)
		return -1;
	return trainer_evaluate(
	    s->trainer, l->datums, l->count, false, l->base_sums, NULL, &l->base, r);
}

/* null where no supervised token has a token before it. */
static void
put_mean(struct json_writer *w, const char *key, double sum, size_t rows)
{
	json_write_key(w, key);
	if (rows == 0)
		json_write_null(w);
	else
		json_write_double(w, -sum / (double)rows);
}

static void
write_losses(struct json_writer *w, const struct losses *l)
{
	json_write_object(w);
	json_put_double(w, "loss", l->all.loss);
	json_put_double(w, "base_loss", l->base.loss);
	json_put_uint(w, "input_token_count", l->all.input_tokens);
	json_put_uint(w, "supervised_token_count", l->all.supervised_tokens);
	json_write_key(w, "datums");
	json_write_array(w);
	for (size_t i = 0; i < l->count; i++) {
		const struct datum *d = l->datums[i];
		size_t rows = batch_datum_rows(d);

		json_write_object(w);
		json_put_string(w, "datum_id", d->id);
		put_mean(w, "loss", l->sums[i], rows);
		put_mean(w, "base_loss", l->base_sums[i], rows);
		json_put_uint(w, "supervised_token_count", d->supervised_count);
		json_write_object_end(w);
	}
	json_write_array_end(w);
	json_write_object_end(w);
}

int
session_evaluate(struct session *s, int ids, int *answer, struct refusal *r)
{
	struct losses l = {0};
	struct json_writer w;
	const char *json;
	size_t len;
	int rc;

	*answer = -1;
	if (session_find_datums(s, ids, &l.datums, &l.count, r) != 0)
		return -1;
	rc = losses_take(&l, s, r);
	if (rc == 0) {
		json_writer_init(&w);
		write_losses(&w, &l);
		json = json_writer_text(&w, &len);
		*answer = json == NULL ? -1 : blob_from("evaluated", json, len);
		json_writer_fini(&w);
		rc = *answer < 0 ? no_memory(r) : 0;
	}
	free(l.sums);
	free(l.datums);
	return rc;
}
