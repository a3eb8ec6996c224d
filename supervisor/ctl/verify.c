/*
 * stepctl verify: is this folder the adapter, or this file the state, that it says it is? Digest,
 * parse, shapes against the config, every value finite. Nothing is loaded that computes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "ipc/json.h"
#include "ipc/json_write.h"
#include "ipc/safetensors.h"
#include "supervisor/ctl/options.h"
#include "supervisor/ctl/print.h"
#include "supervisor/ctl/verbs.h"

static const struct ctl_option options[] = {
    {"json", NULL, NULL, "print the findings as JSON"},
    {NULL, NULL, NULL, NULL},
};

struct mapped {
	char path[PATH_MAX];
	void *data;
	size_t len;
};

/* What was found; the first thing that is wrong ends the checks of a file. */
struct finding {
	char kind[16]; /* "adapter", "state" */
	char sha256[65];
	char wrong[600]; /* "" = nothing */
	size_t tensors;
	uint64_t numbers;
	int64_t rank, step;
};

static int wrong(struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int
wrong(struct finding *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(f->wrong, sizeof(f->wrong), format, args);
	va_end(args);
	return -1;
}

static int
map_file(struct mapped *m, struct finding *f)
{
	struct stat st;
	int fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */

	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
		int error = errno;

		if (fd < 0)
			return wrong(f, "%s: %s", m->path, strerror(error));
		close(fd);
		return wrong(f, "%s: empty, or no file", m->path);
	}
	m->len = (size_t)st.st_size;
	m->data = mmap(NULL, m->len, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (m->data == MAP_FAILED) {
		m->data = NULL;
		return wrong(f, "%s: %s", m->path, strerror(errno));
	}
	return 0;
}

static void
unmap_file(struct mapped *m)
{
	if (m->data != NULL)
		munmap(m->data, m->len);
	m->data = NULL;
}

static void
take_digest(const struct mapped *m, struct finding *f)
{
	unsigned char digest[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(digest, m->data, m->len);
	sodium_bin2hex(f->sha256, sizeof(f->sha256), digest, sizeof(digest));
}

/* Every tensor a float32 matrix (an adapter of other tools: any float) with finite values only. */
static int
check_values(const struct safetensors *s, const struct mapped *m, struct finding *f)
{
	f->tensors = safetensors_count(s);
	if (f->tensors == 0)
		return wrong(f, "%s: no tensor in it", m->path);
	for (size_t i = 0; i < f->tensors; i++) {
		const struct safetensors_tensor *t = safetensors_at(s, i);

		if (t->dims != 2 || t->count == 0)
			return wrong(f, "%s: tensor %s is no matrix", m->path, t->name);
		if (safetensors_first_nonfinite(t) < t->count)
			return wrong(f, "%s: tensor %s holds NaN or infinity", m->path, t->name);
		f->numbers += t->count;
	}
	return 0;
}

/* a is name.lora_A.weight: its partner .lora_B.weight must be there, and both of that rank. */
static int
check_pair(const struct safetensors *s, const struct mapped *m, const char *prefix,
    const struct safetensors_tensor *a, struct finding *f)
{
	const struct safetensors_tensor *b;
	char partner[1024];
	const char *at = strstr(a->name, ".lora_A.");

	if (snprintf(partner, sizeof(partner), "%.*s.lora_B.%s", (int)(at - a->name), a->name,
		at + 8) >= (int)sizeof(partner))
		return wrong(f, "%s: a tensor's name is too long", m->path);
	b = safetensors_find(s, partner);
	if (b == NULL)
		return wrong(f, "%s: %s has no partner %s", m->path, a->name, partner);
	if (a->shape[0] != (uint64_t)f->rank || b->shape[1] != (uint64_t)f->rank)
		return wrong(f, "%s: %s%s is not of rank %lld", m->path, a->name + strlen(prefix),
		    a->shape[0] != (uint64_t)f->rank ? "" : "'s partner", (long long)f->rank);
	return 0;
}

/* Tensors that begin with prefix come in pairs A, B of the rank, and are one of `parts` equal parts
   of all: none is left over. */
static int
check_pairs(const struct safetensors *s, const struct mapped *m, const char *prefix, size_t parts,
    struct finding *f)
{
	size_t a = 0, all = 0;

	for (size_t i = 0; i < safetensors_count(s); i++) {
		const struct safetensors_tensor *t = safetensors_at(s, i);

		if (strncmp(t->name, prefix, strlen(prefix)) != 0)
			continue;
		all++;
		if (strstr(t->name, ".lora_A.") != NULL) {
			a++;
			if (check_pair(s, m, prefix, t, f) != 0)
				return -1;
		}
	}
	if (a == 0 || all != 2 * a)
		return wrong(f, "%s: %zu tensors are no pairs of LoRA matrices", m->path, all);
	if (all * parts != f->tensors)
		return wrong(f, "%s: %zu of %zu tensors are %s*", m->path, all, f->tensors, prefix);
	return 0;
}

/* r and what else PEFT needs from adapter_config.json. */
static int
read_config(const char *folder, struct finding *f)
{
	struct mapped m = {0};
	struct json_doc *doc = NULL;
	struct json_error err;
	int rc = 0;

	snprintf(m.path, sizeof(m.path), "%s/adapter_config.json", folder);
	if (map_file(&m, f) != 0)
		return -1;
	if (json_parse(&doc, m.data, m.len, &err) != 0)
		rc = wrong(f, "%s: no JSON: %s", m.path, err.what);
	else if (!json_string_is(json_get(json_root(doc), "peft_type"), "LORA"))
		rc = wrong(f, "%s: peft_type is not LORA", m.path);
	else if (!json_int64(json_get(json_root(doc), "r"), &f->rank) || f->rank < 1)
		rc = wrong(f, "%s: r is no rank", m.path);
	else if (json_count(json_get(json_root(doc), "target_modules")) == 0)
		rc = wrong(f, "%s: target_modules is empty", m.path);
	json_free(doc);
	unmap_file(&m);
	return rc;
}

static int
read_number(const struct safetensors *s, const char *key, int64_t *out)
{
	const char *text = safetensors_metadata(s, key);
	char *end;

	if (text == NULL || *text < '0' || *text > '9')
		return -1;
	*out = strtoll(text, &end, 10);
	return *end == '\0' ? 0 : -1;
}

static int
check_state(const struct safetensors *s, const struct mapped *m, struct finding *f)
{
	static const char *const parts[] = {"adapter.", "exp_avg.", "exp_avg_sq."};
	const char *format = safetensors_metadata(s, "format");

	if (format == NULL || strcmp(format, "stepd-state/1") != 0)
		return wrong(f, "%s: its format is %s, not stepd-state/1", m->path,
		    format == NULL ? "not told" : format);
	if (read_number(s, "lora_rank", &f->rank) != 0 || read_number(s, "step", &f->step) != 0)
		return wrong(f, "%s: lora_rank or step is no number", m->path);
	if (check_values(s, m, f) != 0)
		return -1;
	for (size_t i = 0; i < 3; i++)
		if (check_pairs(s, m, parts[i], 3, f) != 0)
			return -1;
	return 0;
}

static int
check_adapter(const struct safetensors *s, const struct mapped *m, struct finding *f)
{
	if (check_values(s, m, f) != 0)
		return -1;
	return check_pairs(s, m, "base_model.model.", 1, f);
}

/* The digest of a file, and what `check` says of the tensors in it. */
static int
check_tensors(const char *path, struct finding *f,
    int (*check)(const struct safetensors *s, const struct mapped *m, struct finding *f))
{
	struct mapped m = {0};
	struct safetensors *s = NULL;
	char why[300];
	int rc;

	snprintf(m.path, sizeof(m.path), "%s", path);
	if (map_file(&m, f) != 0)
		return -1;
	take_digest(&m, f);
	if (safetensors_open(&s, m.data, m.len, why, sizeof(why)) != 0)
		rc = wrong(f, "%s: %s", m.path, why);
	else
		rc = check(s, &m, f);
	safetensors_free(s);
	unmap_file(&m);
	return rc;
}

static int
check_folder(const char *folder, struct finding *f)
{
	char path[PATH_MAX];

	strcpy(f->kind, "adapter");
	if (read_config(folder, f) != 0)
		return -1;
	if (snprintf(path, sizeof(path), "%s/adapter_model.safetensors", folder) >=
	    (int)sizeof(path))
		return wrong(f, "%s: %s", folder, strerror(ENAMETOOLONG));
	return check_tensors(path, f, check_adapter);
}

static int
check_file(const char *path, struct finding *f)
{
	strcpy(f->kind, "state");
	return check_tensors(path, f, check_state);
}

/* 0 or CTL_FAILED. */
static int
print_finding(const char *path, const struct finding *f, bool json)
{
	struct json_writer w;

	if (!json && f->wrong[0] != '\0') {
		printf("FAIL  %s\n", f->wrong);
		return CTL_OK;
	}
	if (!json) {
		printf("PASS  %s: %s, rank %lld, %zu tensors, %llu numbers, all finite\n      "
		       "sha256 %s\n",
		    path, f->kind, (long long)f->rank, f->tensors, (unsigned long long)f->numbers,
		    f->sha256);
		return CTL_OK;
	}
	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "path", path);
	json_put_string(&w, "kind", f->kind);
	json_put_bool(&w, "pass", f->wrong[0] == '\0');
	json_put_text(&w, "reason", f->wrong);
	json_put_text(&w, "sha256", f->sha256);
	json_put_int(&w, "rank", f->rank);
	json_put_uint(&w, "tensors", f->tensors);
	json_put_uint(&w, "numbers", f->numbers);
	json_write_object_end(&w);
	return print_json(&w);
}

static int
verify_one(const char *path, bool folder, bool json)
{
	struct finding f = {0};
	int rc = folder ? check_folder(path, &f) : check_file(path, &f);

	if (print_finding(path, &f, json) != CTL_OK)
		rc = -1;
	return rc == 0 ? CTL_OK : CTL_FAILED;
}

static bool
is_there(char out[PATH_MAX], const char *folder, const char *name)
{
	return snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && access(out, F_OK) == 0;
}

/* A file is a state; a folder is an adapter, or a run's: then its adapter/ and its state. */
static int
verify(const char *path, bool json)
{
	char inner[PATH_MAX];
	struct stat st;
	int code;

	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return verify_one(path, false, json);
	if (!is_there(inner, path, "adapter"))
		return verify_one(path, true, json);
	code = verify_one(inner, true, json);
	if (is_there(inner, path, "state.safetensors") && verify_one(inner, false, json) != CTL_OK)
		code = CTL_FAILED;
	return code;
}

static int
verify_run(int argc, char **argv)
{
	struct ctl_arguments a;
	int code = CTL_OK;

	if (ctl_parse(&a, options, argc, argv) != 0)
		return CTL_USAGE;
	if (a.operand_count == 0) {
		fputs("stepctl: verify what? Give folders of adapters or state files\n", stderr);
		return CTL_USAGE;
	}
	for (int i = 0; i < a.operand_count; i++)
		if (verify(a.operands[i], ctl_switch(&a, "json")) != CTL_OK)
			code = CTL_FAILED;
	return code;
}

const struct ctl_verb ctl_verify = {"verify", "FOLDER|FILE... [--json]",
    "checks adapters, states, folders of runs: digest, parse, shapes, all finite", options,
    verify_run, NULL};
