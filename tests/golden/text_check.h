/*
 * What the golden checks of templates and masks share: files, lines of JSON, and texts out of the
 * packages that tests/fetch.sh brings.
 */
#ifndef TESTS_GOLDEN_TEXT_CHECK_H
#define TESTS_GOLDEN_TEXT_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ipc/json.h"
#include "worker/files/gguf.h"

static unsigned passed, failed;

/* Counts one comparison; a failure is printed, the format's arguments say which it is. */
static inline bool __attribute__((format(printf, 2, 3))) check(bool good, const char *format, ...)
{
	va_list args;

	*(good ? &passed : &failed) += 1;
	if (good)
		return true;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	return false;
}

static inline int
finish(void)
{
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0 || passed == 0;
}

/* The whole file, with a NUL after its len bytes, or NULL. The caller frees it. */
static inline char *
read_whole(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	struct stat st;

	*len = 0;
	if (f == NULL)
		return NULL;
	if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode))
		text = malloc((size_t)st.st_size + 1);
	if (text != NULL) {
		*len = fread(text, 1, (size_t)st.st_size, f);
		text[*len] = '\0';
	}
	fclose(f);
	return text;
}

static inline const char *
package_folder(void)
{
	const char *folder = getenv("STEPD_TEST_PACKAGES");

	if (folder == NULL)
		folder = getenv("STEPD_FETCH_DIR");
	return folder != NULL ? folder : "build/fetch";
}

/* The path of a file of a package, as {package, version, path} names it, up to a '#'. */
static inline void
package_path(char out[4096], struct json source)
{
	const char *path = json_string(json_get(source, "path"), NULL);
	char name[256];

	snprintf(name, sizeof(name), "%s-%s", json_string(json_get(source, "package"), NULL),
	    json_string(json_get(source, "version"), NULL));
	for (char *c = name; *c != '\0' && *c != '.'; c++)
		if (*c == '-' && c[1] > '9')
			*c = '_';
	snprintf(out, 4096, "%s/%s/%.*s", package_folder(), name, (int)strcspn(path, "#"), path);
}

/* A text as a source record names it: a file below folder, a file of a package, or the metadata of
   a GGUF file in one ("x.gguf#key"). NULL with *why where it is not there. The caller frees it. */
static inline char *
source_text(const char *folder, struct json source, size_t *len, struct refusal *why)
{
	const char *path = json_string(json_get(source, "path"), NULL);
	const char *key = path == NULL ? NULL : strchr(path, '#'), *view;
	char file[4096], *bytes, *text = NULL;
	struct gguf *gguf;

	if (path == NULL)
		return NULL;
	if (json_exists(json_get(source, "package")))
		package_path(file, source);
	else
		snprintf(file, sizeof(file), "%s/%s", folder, path);
	bytes = read_whole(file, len);
	if (bytes == NULL)
		refuse(why, 422, "%s is not there: run tests/fetch.sh", file);
	if (bytes == NULL || key == NULL)
		return bytes;
	if (gguf_open(&gguf, bytes, *len, file, why) == 0) {
		if (gguf_string(gguf, key + 1, &view, len) && (text = malloc(*len + 1)) != NULL)
			memcpy(text, view, *len);
		else
			refuse(why, 422, "%s has no %s", file, key + 1);
		gguf_free(gguf);
	}
	free(bytes);
	return text;
}

/* The lines of a file of JSON lines: run(line, state) for each. false if it is not there. */
static inline bool
each_line(
    const char *folder, const char *name, void (*run)(struct json line, void *state), void *state)
{
	char path[4096], *text, *end;
	size_t len;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	text = read_whole(path, &len);
	if (text == NULL)
		return false;
	for (char *line = text; *line != '\0'; line = end + (*end != '\0')) {
		struct json_doc *doc;

		end = line + strcspn(line, "\n");
		if (json_parse(&doc, line, (size_t)(end - line), NULL) < 0) {
			check(false, "%s: a line that is no JSON", name);
			continue;
		}
		run(json_root(doc), state);
		json_free(doc);
	}
	free(text);
	return true;
}

#endif
