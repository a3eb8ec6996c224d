#include "supervisor/session/models.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_LIMIT = 512 };

static const char why_name[] = "base_model is not a name that a model can have here";
static const char why_absent[] = "base_model is not on this trainer";
static const char why_revision[] = "base_model is not on this trainer at the model_revision";
static const char why_unpinned[] =
    "base_model is on this trainer without a known revision: send model_revision null, or write "
    "the revision into the file `revision` of its folder";

static const char why_failed[] = "base_model could not be looked for now: send the request again";

/* Slash-separated components, none empty, hidden or with control characters. */
static bool
name_is_safe(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > NAME_LIMIT || name[0] == '/' || name[len - 1] == '/')
		return false;
	for (const char *p = name; *p != '\0'; p++) {
		bool first = p == name || p[-1] == '/';

		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\' ||
		    (first && (*p == '.' || *p == '/')))
			return false;
	}
	return true;
}

static bool
join(char path[MODEL_PATH_MAX], const char *a, const char *b)
{
	int n = snprintf(path, MODEL_PATH_MAX, "%s/%s", a, b);

	return n > 0 && n < MODEL_PATH_MAX;
}

/* After a call failed: where that does not mean that nothing is there, *error remembers it. */
static void
note_failure(int *error)
{
	switch (errno) {
	case ENOENT:
	case ENOTDIR:
	case EISDIR:
	case ELOOP:
	case ENAMETOOLONG:
	case EACCES:
		return;
	default:
		*error = -errno;
	}
}

static bool
is_kind(const char *path, mode_t kind, int *error)
{
	struct stat st;

	if (stat(path, &st) == 0)
		return (st.st_mode & S_IFMT) == kind;
	note_failure(error);
	return false;
}

static DIR *
open_folder(const char *folder, int *error)
{
	DIR *dir = opendir(folder);

	if (dir == NULL)
		note_failure(error);
	return dir;
}

/* The next entry, or NULL at the end. */
static struct dirent *
next_entry(DIR *dir, int *error)
{
	struct dirent *entry;

	errno = 0;
	entry = readdir(dir);
	if (entry == NULL && errno != 0)
		note_failure(error);
	return entry;
}

static bool
ends_with(const char *text, const char *end)
{
	size_t a = strlen(text), b = strlen(end);

	return a > b && strcmp(text + a - b, end) == 0;
}

/* What a folder holds that a worker can open: the folder itself, or its one GGUF file. */
static bool
folder_model(const char *folder, char path[MODEL_PATH_MAX], int *error)
{
	char config[MODEL_PATH_MAX], gguf[MODEL_PATH_MAX];
	size_t ggufs = 0, tensors = 0;
	struct dirent *entry;
	DIR *dir = open_folder(folder, error);

	if (dir == NULL)
		return false;
	while ((entry = next_entry(dir, error)) != NULL) {
		tensors += ends_with(entry->d_name, ".safetensors");
		if (entry->d_name[0] != '.' && ends_with(entry->d_name, ".gguf")) {
			ggufs++;
			if (!join(gguf, folder, entry->d_name))
				ggufs++; /* a path too long to be the one */
		}
	}
	closedir(dir);
	if (ggufs == 1 && tensors == 0 && is_kind(gguf, S_IFREG, error)) {
		memcpy(path, gguf, MODEL_PATH_MAX);
		return true;
	}
	return join(config, folder, "config.json") && is_kind(config, S_IFREG, error) &&
	       snprintf(path, MODEL_PATH_MAX, "%s", folder) < MODEL_PATH_MAX;
}

/* The 40 hex digits that a small file starts with. */
static bool
read_revision(const char *path, char revision[MODEL_REVISION_LEN + 1], int *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char text[MODEL_REVISION_LEN + 1];
	ssize_t n;

	if (fd < 0) {
		note_failure(error);
		return false;
	}
	n = read(fd, text, sizeof(text));
	if (n < 0)
		note_failure(error);
	close(fd);
	if (n < MODEL_REVISION_LEN || (n > MODEL_REVISION_LEN && text[MODEL_REVISION_LEN] != '\n' &&
					  text[MODEL_REVISION_LEN] != '\r'))
		return false;
	memcpy(revision, text, MODEL_REVISION_LEN);
	revision[MODEL_REVISION_LEN] = '\0';
	return strspn(revision, "0123456789abcdef") == MODEL_REVISION_LEN;
}

/* 0, or -ESTALE with *why. */
static int
check_plain_revision(const char *model, const char *wanted, const char **why, int *error)
{
	static const char *const notes[] = {"revision",
	    ".cache/huggingface/download/config.json.metadata",
	    ".cache/huggingface/download/model.safetensors.metadata"};
	char folder[MODEL_PATH_MAX], note[MODEL_PATH_MAX], found[MODEL_REVISION_LEN + 1];

	if (wanted == NULL)
		return 0;
	snprintf(folder, sizeof(folder), "%s", model);
	if (!is_kind(model, S_IFDIR, error) && strrchr(folder, '/') != NULL)
		*strrchr(folder, '/') = '\0';
	for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); i++) {
		if (join(note, folder, notes[i]) && read_revision(note, found, error)) {
			*why = why_revision;
			return strcmp(found, wanted) == 0 ? 0 : -ESTALE;
		}
	}
	*why = why_unpinned;
	return -ESTALE;
}

/* A model below STEPD_MODEL_DIR by its name. */
static bool
plain_model(const char *model_dir, const char *name, char path[MODEL_PATH_MAX], int *error)
{
	char at[MODEL_PATH_MAX];

	if (!join(at, model_dir, name))
		return false;
	if (is_kind(at, S_IFDIR, error) && folder_model(at, path, error))
		return true;
	if (ends_with(at, ".gguf") && is_kind(at, S_IFREG, error)) {
		memcpy(path, at, MODEL_PATH_MAX);
		return true;
	}
	return snprintf(path, MODEL_PATH_MAX, "%s.gguf", at) < MODEL_PATH_MAX &&
	       is_kind(path, S_IFREG, error);
}

/* The only snapshot of a cached model. */
static bool
only_snapshot(const char *snapshots, char revision[MODEL_REVISION_LEN + 1], int *error)
{
	struct dirent *entry;
	size_t found = 0;
	DIR *dir = open_folder(snapshots, error);

	if (dir == NULL)
		return false;
	while ((entry = next_entry(dir, error)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		found++;
		if (strlen(entry->d_name) == MODEL_REVISION_LEN)
			memcpy(revision, entry->d_name, MODEL_REVISION_LEN + 1);
		else
			found++;
	}
	closedir(dir);
	return found == 1;
}

/* A model in one Hugging Face cache. 0, -ENOENT, or -ESTALE. */
static int
cached_model(
    const char *cache, const char *name, const char *wanted, char path[MODEL_PATH_MAX], int *error)
{
	char repository[MODEL_PATH_MAX], snapshots[MODEL_PATH_MAX], at[MODEL_PATH_MAX];
	char revision[MODEL_REVISION_LEN + 1];
	const char *slash = strchr(name, '/');
	int n;

	if (slash != NULL && strchr(slash + 1, '/') != NULL)
		return -ENOENT;
	n = slash == NULL ? snprintf(repository, sizeof(repository), "%s/models--%s", cache, name)
			  : snprintf(repository, sizeof(repository), "%s/models--%.*s--%s", cache,
				(int)(slash - name), name, slash + 1);
	if (n < 0 || n >= (int)sizeof(repository) || !is_kind(repository, S_IFDIR, error) ||
	    !join(snapshots, repository, "snapshots"))
		return -ENOENT;
	if (wanted != NULL)
		memcpy(revision, wanted, sizeof(revision));
	else if (!(join(at, repository, "refs/main") && read_revision(at, revision, error)) &&
		 !only_snapshot(snapshots, revision, error))
		return -ENOENT;
	if (!join(at, snapshots, revision))
		return -ENOENT;
	if (is_kind(at, S_IFDIR, error) && folder_model(at, path, error))
		return 0;
	return wanted != NULL ? -ESTALE : -ENOENT;
}

/* Those places in their order. 0, -ENOENT or -ESTALE. */
static int
look(const struct model_dirs *dirs, const char *name, const char *revision,
    char path[MODEL_PATH_MAX], const char **why, int *error)
{
	char hub[2][MODEL_PATH_MAX];
	const char *caches[3] = {dirs->model_dir, NULL, NULL};

	*why = why_absent;
	if (dirs->model_dir != NULL && plain_model(dirs->model_dir, name, path, error) &&
	    check_plain_revision(path, revision, why, error) == 0)
		return 0;
	if (dirs->model_dir != NULL && join(hub[0], dirs->model_dir, "hub"))
		caches[1] = hub[0];
	if (dirs->hf_home != NULL && join(hub[1], dirs->hf_home, "hub"))
		caches[2] = hub[1];
	for (size_t i = 0; i < sizeof(caches) / sizeof(*caches); i++) {
		int rc = caches[i] == NULL ? -ENOENT
					   : cached_model(caches[i], name, revision, path, error);

		if (rc == 0)
			return 0;
		if (rc == -ESTALE)
			*why = why_revision;
	}
	return *why == why_absent ? -ENOENT : -ESTALE;
}

int
models_find(const struct model_dirs *dirs, const char *name, const char *revision,
    char path[MODEL_PATH_MAX], const char **why)
{
	int error = 0, rc;

	*why = why_name;
	if (!name_is_safe(name) || (revision != NULL && strlen(revision) != MODEL_REVISION_LEN))
		return -EINVAL;
	rc = look(dirs, name, revision, path, why, &error);
	if (error == 0)
		return rc;
	/* What was found behind a place that could not be read need not be what is meant. */
	*why = why_failed;
	return -EAGAIN;
}
