#include "tests/bench/bench_session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/random_model.h"

static char folder[1024];

double
bench_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void
bench_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n0 passed, 1 failed\n");
	exit(1);
}

void
bench_check(enum op_status status, const struct op_context *ops)
{
	if (status != OP_OK)
		bench_die("%s", op_last_error(ops));
}

void
bench_tell(struct bench *b, bool holds, const char *what)
{
	*(holds ? &b->passed : &b->failed) += 1;
	if (!holds)
		printf("failed: %s\n", what);
}

static void
leave(void)
{
	random_model_remove(folder);
	rmdir(folder);
}

void
bench_folder(const char *parent)
{
	snprintf(folder, sizeof(folder), "%s/stepd-bench-XXXXXX", parent);
	if (mkdtemp(folder) == NULL)
		bench_die("%s cannot be made", folder);
	atexit(leave);
}

void
bench_datums(struct bench *b)
{
	for (int i = 0; i < MOST; i++) {
		struct datum *d = &b->datums[i];

		/* the last token is predicted and predicts nothing: it is not in the pass */
		d->length = (uint32_t)b->tokens + 1;
		d->supervised_count = d->length;
		d->ids = malloc(d->length * sizeof(*d->ids));
		d->supervised = malloc(d->length);
		if (d->ids == NULL || d->supervised == NULL)
			bench_die("no memory");
		memset(d->supervised, 1, d->length);
		for (size_t j = 0; j < d->length; j++)
			d->ids[j] =
			    (int32_t)((j * 7919 + (size_t)i * 104729) % b->model->vocabulary);
		b->list[i] = d;
	}
}

void
bench_load(struct bench *b)
{
	const struct trainer_options o = {.rank = RANK,
	    .weight_decay = 0.01,
	    .beta1 = 0.9,
	    .beta2 = 0.999,
	    .epsilon = 1e-8,
	    .datum_tokens = b->tokens + 1};
	double begin = bench_seconds();
	bool in_memory = false;
	size_t bytes = random_model_write(b->model, folder, &in_memory);
	struct refusal r;

	/* Nothing is measured where there is no room for the model. */
	if (bytes == 0) {
		printf("skipped: neither memory nor %s has room for %.1f GB\n0 passed, 0 failed\n",
		    folder, (double)random_model_bytes(b->model) / 1e9);
		exit(0);
	}
	printf("weights made in %.2f s, in %s\n", bench_seconds() - begin,
	    in_memory ? "memory" : folder);
	if (model_files_open(&b->files, folder, &r) != 0)
		bench_die("%s", r.text);
	begin = bench_seconds();
	if (trainer_open(&b->t, b->ops, b->files, &o, &r) != 0)
		bench_die("%s", r.text);
	bench_check(op_sync(b->ops), b->ops);
	begin = bench_seconds() - begin;
	random_model_remove(folder); /* what is mapped stays */
	printf("loaded %.2f GB in %.2f s (%.2f GB/s); %zu tokens a micro-batch, %zu layers "
	       "recomputed\n",
	    (double)bytes / 1e9, begin, (double)bytes / 1e9 / begin, b->t->plan.micro_batch,
	    b->t->plan.recompute);
}

struct trainer_result
bench_step(struct bench *b, size_t count)
{
	struct trainer_result result;
	struct refusal r;

	if (trainer_step(b->t, b->list, count, 1e-4, &result, &r) != 0)
		bench_die("%s", r.text);
	return result;
}

void
bench_set(struct bench *b, const float *param, const float *zeros)
{
	struct refusal r;

	if (trainer_set(b->t, param, zeros, zeros, &r) != 0)
		bench_die("%s", r.text);
	trainer_set_step_count(b->t, 0);
}
