/*
 * Makes what check_peft.py compares: peft_archive MODEL OUT writes OUT.tar.gz, a sampling artifact
 * of an adapter that is far from zero, and OUT.logits: float32 (48, V) that this build computes
 * with it for the tokens 3, 10, 17, ... of one sequence.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/ops.h"
#include "worker/tokenizer/tokenizer.h"
#include "worker/train/evaluate.h"
#include "worker/artifact/sampling.h"
#include "worker/train/trainer.h"

enum { TOKENS = 48, RANK = 4 };

static struct refusal refusal;

static void
need(int result, const char *what)
{
	if (result == 0)
		return;
	fprintf(stderr, "peft_archive: %s: %s\n", what, refusal.text);
	exit(1);
}

static struct tokenizer *
open_tokenizer(const struct model_files *files)
{
	struct tokenizer *t = NULL;

	if (model_files_gguf(files) != NULL)
		need(tokenizer_open_gguf(&t, model_files_gguf(files), &refusal), "tokenizer");
	return t;
}

static void
write_archive(const char *path, const char *base, const struct model_files *files,
    const struct adapter *a, const float *param)
{
	struct tokenizer *tokenizer = open_tokenizer(files);
	struct sampling s = {.identity = {.base_model = base,
				 .model_revision = "",
				 .rank = RANK,
				 .alpha = a->alpha,
				 .build = STEPD_VERSION},
	    .step = 1,
	    .loss = 1};
	struct artifact_sum sum;
	char digest[65];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	need(model_files_digest(files, digest, &refusal), "digest");
	s.identity.base_sha256 = digest;
	need(sampling_write(fd, &s, a, param, files, tokenizer, &sum, &refusal), path);
	close(fd);
	tokenizer_free(tokenizer);
}

static void
write_logits(const char *path, struct trainer *t, size_t vocabulary)
{
	float *logits = malloc(TOKENS * vocabulary * sizeof(float));
	int32_t ids[TOKENS];
	FILE *f = fopen(path, "wb");

	for (size_t i = 0; i < TOKENS; i++)
		ids[i] = (int32_t)((3 + 7 * i) % vocabulary);
	need(trainer_logits(t, ids, TOKENS, true, logits, &refusal), "logits");
	if (f == NULL || fwrite(logits, sizeof(float), TOKENS * vocabulary, f) == 0 ||
	    fclose(f) != 0)
		need(-1, path);
	free(logits);
}

int
main(int argc, char **argv)
{
	const struct op_options options = {.compute = OP_F32};
	const struct trainer_options settings = {.rank = RANK, .seed = 1};
	struct op_context *ops;
	struct model_files *files;
	struct trainer *t;
	const struct adapter *a;
	float *param, *zeros;
	char path[1024];

	if (argc != 3)
		return 2;
	need(op_open(&ops, &options) != OP_OK, "device");
	need(model_files_open(&files, argv[1], &refusal), argv[1]);
	need(trainer_open(&t, ops, files, &settings, &refusal), "trainer");
	a = trainer_adapter(t);
	param = malloc(a->size * sizeof(float));
	zeros = calloc(a->size, sizeof(float));
	for (size_t i = 0; i < a->size; i++)
		param[i] = 0.05f * sinf((float)i * 1.7f);
	need(trainer_set(t, param, zeros, zeros, &refusal), "adapter");
	snprintf(path, sizeof(path), "%s.tar.gz", argv[2]);
	write_archive(path, argv[1], files, a, param);
	snprintf(path, sizeof(path), "%s.logits", argv[2]);
	write_logits(path, t, model_files_config(files)->vocabulary);
	free(param);
	free(zeros);
	trainer_free(t);
	model_files_free(files);
	op_close(ops);
	return 0;
}
