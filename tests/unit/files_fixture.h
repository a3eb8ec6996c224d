/* Opening model folders, for their tests. */
#ifndef TESTS_UNIT_FILES_FIXTURE_H
#define TESTS_UNIT_FILES_FIXTURE_H

#include "tests/unit/craft.h"
#include "tests/unit/test.h"
#include "worker/files/files.h"

static struct refusal refusal;

/* The folder or file as a model, or NULL with the refusal. */
static inline struct model_files *
open_files(const char *path)
{
	struct model_files *f;
	int result = model_files_open(&f, path, &refusal);

	CHECK((result == 0) == (f != NULL));
	return f;
}

/* Opening it is refused by a sentence with that word. */
static inline void
refused(const char *path, const char *word)
{
	struct model_files *f = open_files(path);

	CHECK_MSG(f == NULL && refusal.status == 422 && strstr(refusal.text, word) != NULL,
	    "\"%s\", want \"%s\"", f == NULL ? refusal.text : "opened", word);
	model_files_free(f);
}

#endif
