/* From a base_model to a path: folders, files, Hugging Face caches, revisions, and names that try
   to leave. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/session/models.h"
#include "tests/unit/tree.h"

#define REV_A "0123456789abcdef0123456789abcdef01234567"
#define REV_B "89abcdef0123456789abcdef0123456789abcdef"

static void
make_models(void)
{
	static const char *const files[][2] = {{"outside/config.json", "{}"},
	    {"m/org/folder/config.json", "{}"}, {"m/org/folder/model.safetensors", ""},
	    {"m/org/pinned/config.json", "{}"}, {"m/org/pinned/revision", REV_A "\n"},
	    {"m/org/hub-pinned/config.json", "{}"},
	    {"m/org/hub-pinned/.cache/huggingface/download/config.json.metadata",
		REV_B "\nabc\n17.0\n"},
	    {"m/alias/only.gguf", ""}, {"m/alias/README.md", ""}, {"m/two/a.gguf", ""},
	    {"m/two/b.gguf", ""}, {"m/both/config.json", "{}"}, {"m/both/model.safetensors", ""},
	    {"m/both/x.gguf", ""}, {"m/with-config/config.json", "{}"},
	    {"m/with-config/x.gguf", ""}, {"m/file.gguf", ""}, {"m/empty/README.md", ""},
	    {"m/.hidden/config.json", "{}"}, {"m/models--org--cached/refs/main", REV_A},
	    {"m/models--org--cached/snapshots/" REV_A "/config.json", "{}"},
	    {"m/models--org--cached/snapshots/" REV_B "/config.json", "{}"},
	    {"h/hub/models--org--home/snapshots/" REV_B "/model.gguf", ""},
	    {"h/hub/models--single/refs/main", REV_A},
	    {"h/hub/models--single/snapshots/" REV_A "/config.json", "{}"},
	    {"h/hub/models--org--partial/refs/main", REV_A},
	    {"h/hub/models--org--partial/snapshots/" REV_B "/config.json", "{}"},
	    {"h/hub/models--org--pinned/snapshots/" REV_B "/config.json", "{}"}};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		tree_write(files[i][0], files[i][1]);
}

/* The path below the root, or the error's name. */
static const char *
find(const char *name, const char *revision)
{
	static char path[MODEL_PATH_MAX], models[128], home[128];
	struct model_dirs dirs = {models, home};
	const char *why = NULL;
	int error;

	snprintf(models, sizeof(models), "%s/m", tree_root);
	snprintf(home, sizeof(home), "%s/h", tree_root);
	error = models_find(&dirs, name, revision, path, &why);
	if (error == 0)
		return path + strlen(tree_root) + 1;
	CHECK(why != NULL);
	return error == -EINVAL	  ? "EINVAL"
	       : error == -ENOENT ? "ENOENT"
	       : error == -EAGAIN ? "EAGAIN"
				  : "ESTALE";
}

TEST(plain_names)
{
	CHECK_STR(find("org/folder", NULL), "m/org/folder");
	CHECK_STR(find("alias", NULL), "m/alias/only.gguf");
	CHECK_STR(find("file.gguf", NULL), "m/file.gguf");
	CHECK_STR(find("file", NULL), "m/file.gguf");
	CHECK_STR(find("alias/only.gguf", NULL), "m/alias/only.gguf");
	CHECK_STR(find("both", NULL), "m/both");
	CHECK_STR(find("with-config", NULL), "m/with-config/x.gguf");
	CHECK_STR(find("two", NULL), "ENOENT");
	CHECK_STR(find("empty", NULL), "ENOENT");
	CHECK_STR(find("nothing", NULL), "ENOENT");
	CHECK_STR(find("ORG/FOLDER", NULL), "ENOENT");
}

TEST(caches)
{
	CHECK_STR(find("org/cached", NULL), "m/models--org--cached/snapshots/" REV_A);
	CHECK_STR(find("org/cached", REV_B), "m/models--org--cached/snapshots/" REV_B);
	CHECK_STR(find("org/cached", "ffffffffffffffffffffffffffffffffffffffff"), "ESTALE");
	CHECK_STR(find("org/home", NULL), "h/hub/models--org--home/snapshots/" REV_B "/model.gguf");
	CHECK_STR(find("single", NULL), "h/hub/models--single/snapshots/" REV_A);
	/* refs/main names a snapshot that is not there: not a reason to take another one. */
	CHECK_STR(find("org/partial", NULL), "ENOENT");
}

TEST(revisions_of_plain_folders)
{
	CHECK_STR(find("org/folder", REV_A), "ESTALE");
	CHECK_STR(find("org/pinned", NULL), "m/org/pinned");
	CHECK_STR(find("org/pinned", REV_A), "m/org/pinned");
	/* Another revision of the same model lies in the cache. */
	CHECK_STR(find("org/pinned", REV_B), "h/hub/models--org--pinned/snapshots/" REV_B);
	CHECK_STR(find("org/hub-pinned", REV_B), "m/org/hub-pinned");
	CHECK_STR(find("org/hub-pinned", REV_A), "ESTALE");
}

TEST(names_that_leave)
{
	static const char *const bad[] = {"", ".", "..", "../outside", "org/../../outside",
	    "org/..", "/etc", "/", "org/", "org//folder", ".hidden", "org/.hidden", "./alias",
	    "a\\b", "a\nb", "a\x7f"};
	char longest[600];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_MSG(strcmp(find(bad[i], NULL), "EINVAL") == 0, "%s", bad[i]);
	memset(longest, 'a', sizeof(longest));
	longest[599] = '\0';
	CHECK_STR(find(longest, NULL), "EINVAL");
}

/* Without a free descriptor no folder can be read, and what stands behind it is not taken either.
 */
TEST(places_that_cannot_be_read)
{
	struct rlimit limit, none;
	int fd = dup(0);

	close(fd);
	CHECK(fd >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
	none = (struct rlimit){(rlim_t)fd, limit.rlim_max};
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK_STR(find("alias", NULL), "EAGAIN");
	CHECK_STR(find("org/pinned", REV_B), "EAGAIN");
	CHECK_STR(find("org/cached", NULL), "EAGAIN");
	CHECK_STR(find("file.gguf", NULL), "m/file.gguf");
	CHECK_STR(find("nothing", NULL), "ENOENT");
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK_STR(find("alias", NULL), "m/alias/only.gguf");
}

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {TEST_CASE(plain_names), TEST_CASE(caches),
	    TEST_CASE(revisions_of_plain_folders), TEST_CASE(names_that_leave),
	    TEST_CASE(places_that_cannot_be_read), {NULL, NULL}};

	return tree_test_main(cases, make_models, argc, argv);
}
