#include "supervisor/settings/config.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/settings/config_devices.h"
#include "supervisor/settings/config_secret.h"
#include "supervisor/settings/config_table.h"
#include "supervisor/settings/config_user.h"
#include "supervisor/settings/config_value.h"
#include "supervisor/settings/secret_file.h"

#define ROW(type, field, name, min, max, fallback, flags, help)                                    \
	{name, SETTING_##type, flags, min, max, fallback, help, offsetof(struct config, field)},
const struct setting settings[] = {
    SETTINGS_LIST(ROW){.name = NULL},
};
#undef ROW

#define NAME(name) name,
static const char *const without_effect[] = {SETTINGS_WITHOUT_EFFECT(NAME) NULL};
#undef NAME

static void *
field_of(struct config *c, const struct setting *s)
{
	return (char *)c + s->offset;
}

static const char *
env_get(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; *env != NULL; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			/* an empty value is how an environment file leaves one out */
			return (*env)[len + 1] != '\0' ? *env + len + 1 : NULL;
	return NULL;
}

__attribute__((format(printf, 2, 3))) static int
fault(char error[CONFIG_ERROR_MAX], const char *format, ...)
{
	size_t len = strlen(error);
	va_list args;

	if (len > 0 && len + 1 < CONFIG_ERROR_MAX) {
		error[len++] = '\n';
		error[len] = '\0';
	}
	va_start(args, format);
	vsnprintf(error + len, CONFIG_ERROR_MAX - len, format, args);
	va_end(args);
	return -EINVAL;
}

static char *
absolute(const char *path)
{
	char cwd[4096], *out;

	if (*path == '/')
		return strdup(path);
	if (getcwd(cwd, sizeof(cwd)) == NULL || asprintf(&out, "%s/%s", cwd, path) < 0)
		return NULL;
	return out;
}

static int
set_text(struct config *c, const struct setting *s, const char *text, char *error)
{
	char **field = field_of(c, s);
	size_t len = strlen(text);

	if (len < s->min || len > s->max)
		return fault(error, "%s must have %" PRIu64 " to %" PRIu64 " characters", s->name,
		    s->min, s->max);
	*field = s->type == SETTING_PATH ? absolute(text) : strdup(text);
	return *field != NULL ? 0 : fault(error, "%s: out of memory", s->name);
}

/* Sets one field from its text; NULL: the default. Texts of secrets are never repeated. */
static int
set_field(struct config *c, const struct setting *s, const char *text, char *error)
{
	char low[32], high[32];
	uint64_t *number = field_of(c, s);

	if (text == NULL && s->type != SETTING_CHOICE)
		text = s->fallback;
	if (text == NULL && s->type != SETTING_CHOICE)
		return 0;
	switch (s->type) {
	case SETTING_STRING:
	case SETTING_PATH:
		return set_text(c, s, text, error);
	case SETTING_BOOL:
		if (config_value_bool(text, field_of(c, s)) != 0)
			return fault(error, "%s is \"%s\": not true or false", s->name, text);
		return 0;
	case SETTING_CHOICE:
		*(char **)field_of(c, s) = config_value_choice(text, s->fallback);
		if (*(char **)field_of(c, s) == NULL)
			return fault(
			    error, "%s is \"%s\": not one of %s", s->name, text, s->fallback);
		return 0;
	case SETTING_UINT:
	case SETTING_SIZE:
	case SETTING_SECONDS:
		break;
	}
	if (config_value_number(text, s->type == SETTING_SIZE, number) != 0)
		return fault(error, "%s is \"%s\": not a whole number%s", s->name, text,
		    s->type == SETTING_SIZE ? " (k, M, G, T may follow)" : "");
	if (*number >= s->min && *number <= s->max)
		return 0;
	setting_size_text(s->min, low);
	setting_size_text(s->max, high);
	return s->type == SETTING_SIZE
		   ? fault(error, "%s is %s: not from %s to %s", s->name, text, low, high)
		   : fault(error, "%s is %s: not from %" PRIu64 " to %" PRIu64, s->name, text,
			 s->min, s->max);
}

static int
read_setting(struct config *c, const struct setting *s, char *const *env, char *error)
{
	const char *text = env_get(env, s->name);
	char reason[256] = "", *secret = NULL;
	int rc;

	if ((s->flags & SETTING_SECRET) != 0) {
		char name[64];

		snprintf(name, sizeof(name), "%s_FILE", s->name);
		if (config_secret(&secret, s->name, text, env_get(env, name),
			env_get(env, "CREDENTIALS_DIRECTORY"), reason) != 0)
			return fault(error, "%s", reason);
		text = secret;
	}
	rc = set_field(c, s, text, error);
	secret_free(secret);
	return rc;
}

/* A STEPD_ name that no row has is a typo. */
static int
check_names(char *const *env, char *error)
{
	int rc = 0;

	for (; *env != NULL; env++) {
		size_t len = strcspn(*env, "=");
		bool known = strncmp(*env, "STEPD_URL=", 10) == 0; /* stepctl's */

		if (strncmp(*env, "STEPD_", 6) != 0)
			continue;
		for (const struct setting *s = settings; s->name != NULL; s++)
			known |= strlen(s->name) == len && strncmp(s->name, *env, len) == 0;
		if (!known)
			rc = fault(error, "%.*s is not a setting of stepd (see stepd --help)",
			    len < 64 ? (int)len : 64, *env);
	}
	return rc;
}

/* $<name>/<rest>, or with that unset $HOME/<home>/<rest>; NULL without a home. 0 or -ENOMEM. */
static int
home_path(const char **out, char *const *env, const char *name, const char *home, const char *rest)
{
	const char *top = env_get(env, name), *dir = env_get(env, "HOME");
	char *path = NULL;
	int len = 0;

	if (top != NULL && *top == '/')
		len = asprintf(&path, "%s/%s", top, rest);
	else if (dir != NULL && *dir == '/')
		len = asprintf(&path, "%s/%s/%s", dir, home, rest);
	*out = len < 0 ? NULL : path;
	return len < 0 ? -ENOMEM : 0;
}

/* NULL where /proc does not tell. 0 or -ENOMEM. */
static int
beside_executable(const char **out, const char *name)
{
	char self[4096], *path = NULL;
	ssize_t self_len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int len = 0;

	if (self_len > 0) {
		self[self_len] = '\0';
		*strrchr(self, '/') = '\0';
		len = asprintf(&path, "%s/%s", self, name);
	}
	*out = len < 0 ? NULL : path;
	return len < 0 ? -ENOMEM : 0;
}

/* Paths that depend on where and as whom stepd runs. Without memory none of them is guessed. */
static int
fill_paths(struct config *c, char *const *env)
{
	const char *state = env_get(env, "STATE_DIRECTORY");
	int error = 0;

	if (c->state_dir == NULL && state != NULL) { /* systemd: a list, ours comes first */
		c->state_dir = strndup(state, strcspn(state, ":"));
		error = c->state_dir == NULL ? -ENOMEM : 0;
	} else if (c->state_dir == NULL) {
		error = home_path(&c->state_dir, env, "XDG_STATE_HOME", ".local/state", "stepd");
	}
	if (error == 0 && c->hf_home == NULL)
		error = home_path(&c->hf_home, env, "XDG_CACHE_HOME", ".cache", "huggingface");
	if (error == 0 && c->worker == NULL)
		error = beside_executable(&c->worker, "stepd-worker");
	return error;
}

/* STEPD_TOKENS_FILE by way of systemd: the credential trainer_tokens, where there is one. */
static int
find_tokens(struct config *c, const char *credentials)
{
	char *path;

	if (c->tokens_file != NULL || credentials == NULL)
		return 0;
	if (asprintf(&path, "%s/trainer_tokens", credentials) < 0)
		return -ENOMEM;
	if (access(path, F_OK) == 0) {
		c->tokens_file = path;
		c->tokens_credential = true;
	} else {
		free(path);
	}
	return 0;
}

static bool
is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Defaults that depend on where and as whom stepd runs. */
static int
fill_in(struct config *c, char *const *env, char *error)
{
	int rc = fill_paths(c, env);

	if (rc != 0)
		return fault(error, "STEPD_STATE_DIR: out of memory");
	if (c->state_dir == NULL)
		return fault(error, "STEPD_STATE_DIR is not set, and there is no home folder");
	if (c->worker == NULL)
		return fault(error, "STEPD_WORKER is not set, and no program was found");
	if (c->worker_cuda != NULL && !is_program(c->worker_cuda))
		return fault(error, "STEPD_WORKER_CUDA is no program: %s", c->worker_cuda);
	if (c->worker_cuda == NULL && beside_executable(&c->worker_cuda, "stepd-worker-cuda") != 0)
		return fault(error, "STEPD_WORKER_CUDA: out of memory");
	if (c->worker_cuda != NULL && !is_program(c->worker_cuda)) {
		free((char *)c->worker_cuda);
		c->worker_cuda = NULL;
	}
	rc = config_user(c->worker_user, &c->worker_uid, &c->worker_gid);
	if (rc == -ENOENT)
		return fault(error, "STEPD_WORKER_USER: no user %s", c->worker_user);
	if (rc != 0)
		return fault(error, "STEPD_WORKER_USER: %s", strerror(-rc));
	if (find_tokens(c, env_get(env, "CREDENTIALS_DIRECTORY")) != 0)
		return fault(error, "STEPD_TOKENS_FILE: out of memory");
	return 0;
}

static int
check_together(const struct config *c, char *error)
{
	bool automatic = c->tls_cert != NULL && strcmp(c->tls_cert, "auto") == 0;
	char reason[256];

	if (config_devices_check(c->devices, reason, sizeof(reason)) != 0)
		return fault(error, "STEPD_DEVICES: %s", reason);
	if (c->tls_cert != NULL && !automatic && c->tls_key == NULL)
		return fault(error, "STEPD_TLS_CERT needs STEPD_TLS_KEY beside it");
	if ((c->tls_cert == NULL || automatic) && c->tls_key != NULL)
		return fault(error, "STEPD_TLS_KEY needs a STEPD_TLS_CERT of its own");
	if (c->token == NULL && c->tokens_file == NULL)
		return fault(
		    error, "TRAINER_TOKEN is not set, nor TRAINER_TOKEN_FILE or STEPD_TOKENS_FILE");
	for (const char *p = c->token != NULL ? c->token : ""; *p != '\0'; p++)
		if (*p <= ' ' || *p >= 0x7f)
			return fault(error, "TRAINER_TOKEN must be visible ASCII without spaces");
	if (c->public_url != NULL) {
		const char *host = strstr(c->public_url, "://");

		if ((strncmp(c->public_url, "https://", 8) != 0 &&
			strncmp(c->public_url, "http://", 7) != 0) ||
		    host[3] == '\0' || strpbrk(host + 3, "/?#@ ") != NULL)
			return fault(error, "STEPD_PUBLIC_URL must be https://host[:port]");
	}
	return 0;
}

int
config_load(struct config *c, char *const *env, char error[CONFIG_ERROR_MAX])
{
	int rc;

	memset(c, 0, sizeof(*c));
	*error = '\0';
	rc = check_names(env, error);
	for (const struct setting *s = settings; s->name != NULL; s++)
		if (read_setting(c, s, env, error) != 0)
			rc = -EINVAL;
	if (rc == 0)
		rc = fill_in(c, env, error);
	return rc == 0 ? check_together(c, error) : rc;
}

void
config_fini(struct config *c)
{
	for (const struct setting *s = settings; s->name != NULL; s++) {
		char **field = field_of(c, s);

		if (s->type != SETTING_STRING && s->type != SETTING_PATH &&
		    s->type != SETTING_CHOICE)
			continue;
		if ((s->flags & SETTING_SECRET) != 0 && *field != NULL)
			sodium_memzero(*field, strlen(*field));
		free(*field);
		*field = NULL;
	}
}

const char *
config_without_effect(char *const *env, size_t n)
{
	for (size_t i = 0; without_effect[i] != NULL; i++)
		if (env_get(env, without_effect[i]) != NULL && n-- == 0)
			return without_effect[i];
	return NULL;
}
