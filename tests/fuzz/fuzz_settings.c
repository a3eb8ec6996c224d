/*
 * Lines as an environment, as an environment file has them: settings, or a sentence for each fault.
 * The token is in neither.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/settings/config.h"
#include "supervisor/transfer/egress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENTRIES_MAX = 256 };

static const char token_name[] = "TRAINER_TOKEN=";

/* A token that cannot be part of what is said for another reason, or NULL. */
static const char *
secret_of(char *const *env)
{
	const char *secret = NULL;

	for (char *const *at = env; secret == NULL && *at != NULL; at++) {
		if (strncmp(*at, token_name, sizeof(token_name) - 1) == 0)
			secret = *at + sizeof(token_name) - 1;
	}
	if (secret == NULL || strlen(secret) < 8 || strstr(secret, "~#") == NULL)
		return NULL;
	for (char *const *at = env; *at != NULL; at++) {
		if (strncmp(*at, token_name, sizeof(token_name) - 1) != 0 &&
		    strstr(*at, secret) != NULL)
			return NULL;
	}
	return secret;
}

static void
check_printed(const struct config *c, const char *secret)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (out == NULL)
		abort();
	config_print(c, out);
	fclose(out);
	if (secret != NULL && strstr(text, secret) != NULL)
		abort();
	free(text);
}

static void
check(char *const *env)
{
	const char *secret = secret_of(env);
	char error[CONFIG_ERROR_MAX], bad[256];
	struct egress egress = {0};
	struct config c;
	int rc = config_load(&c, env, error);

	if ((rc == 0) != (error[0] == '\0') || strlen(error) >= sizeof(error))
		abort();
	if (secret != NULL && strstr(error, secret) != NULL)
		abort();
	if (rc == 0) {
		if ((c.token == NULL && c.tokens_file == NULL) || c.state_dir == NULL ||
		    c.worker == NULL)
			abort();
		check_printed(&c, secret);
		egress_init(&egress, c.egress_allow, bad, sizeof(bad));
		egress_fini(&egress);
	}
	for (size_t i = 0; config_without_effect(env, i) != NULL; i++)
		if (i > ENTRIES_MAX)
			abort();
	config_fini(&c);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *rest = text, *env[ENTRIES_MAX + 1];
	size_t count = 0;

	if (text == NULL)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	while (rest != NULL && count < ENTRIES_MAX)
		env[count++] = strsep(&rest, "\n");
	env[count] = NULL;
	check(env);
	free(text);
	return 0;
}
