/* A golden model's adapter, and what reading a sampling artifact needs and gives, for its tests. */
#ifndef TESTS_UNIT_SAMPLING_FIXTURE_H
#define TESTS_UNIT_SAMPLING_FIXTURE_H

#include "tests/unit/craft.h"
#include "tests/unit/test.h"
#include "worker/artifact/sampling.h"
#include "worker/files/files.h"
#include "worker/train/adapter.h"

#define GOLDEN "tests/data/golden/models/llama_gqa"

static struct refusal refusal;
static struct model_files *files;
static struct adapter adapter;
static struct artifact_identity identity;
static float *got; /* the parameters that were read */

/* llama_gqa's adapters have rank 4, alpha 8, and its folder's name as base model. */
static inline void
set_up(const char *targets)
{
	CHECK(model_files_open(&files, GOLDEN, &refusal) == 0);
	CHECK(adapter_init(&adapter, model_files_config(files), 4, 8, targets, &refusal) == 0);
	identity = (struct artifact_identity){.base_model = "llama_gqa",
	    .model_revision = "",
	    .base_sha256 = "ab",
	    .rank = 4,
	    .alpha = 8,
	    .seed = 3,
	    .build = "1"};
	got = calloc(adapter.size, sizeof(float));
}

static inline void
tear_down(void)
{
	free(got);
	adapter_fini(&adapter);
	model_files_free(files);
}

/* It was refused by a sentence with that word. */
static inline void
refused(int result, const char *word)
{
	CHECK_MSG(result == -1 && refusal.status == 422 && strstr(refusal.text, word) != NULL,
	    "\"%s\", want \"%s\"", result != 0 ? refusal.text : "taken", word);
}

#endif
