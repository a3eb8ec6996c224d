/*
 * From the base_model of a request to a folder or file of this machine. A name is looked up in
 * this order:
 *
 *	STEPD_MODEL_DIR/<name>		a folder with config.json, or holding exactly one GGUF file
 *	STEPD_MODEL_DIR/<name>[.gguf]	a GGUF file
 *	<cache>/models--org--name/	a Hugging Face cache: STEPD_MODEL_DIR, its hub/, or
 *					$HF_HOME/hub
 *
 * A name never leaves those folders: absolute names, "..", hidden and empty components are refused.
 * Links that the operator put there are followed.
 *
 * A model_revision must be the revision of what is there: a cache's snapshot of that name; or, for
 * a plain folder, the content of its file `revision` or what `hf download --local-dir` noted in
 * .cache/huggingface/download/. A folder that does not tell its revision serves null only.
 */
#ifndef SUPERVISOR_SESSION_MODELS_H
#define SUPERVISOR_SESSION_MODELS_H

#include <stddef.h>

enum { MODEL_PATH_MAX = 4096, MODEL_REVISION_LEN = 40 };

struct model_dirs {
	const char *model_dir; /* NULL: not set */
	const char *hf_home;   /* NULL: not set */
};

/* revision: NULL or 40 hex digits. 0 with path filled; or, with *why a public sentence:
   -EINVAL (no such name can be), -ENOENT (not here), -ESTALE (here, at another revision), -EAGAIN
   (a folder or file could not be read: whether it is here is not known). */
int models_find(const struct model_dirs *dirs, const char *name, const char *revision,
    char path[MODEL_PATH_MAX], const char **why);

#endif
