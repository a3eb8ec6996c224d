/*
 * The settings of one run, read once from the environment at the start. Names and meanings are in
 * settings.h.
 */
#ifndef SUPERVISOR_SETTINGS_CONFIG_H
#define SUPERVISOR_SETTINGS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "supervisor/settings/settings.h"

#define CONFIG_TYPE_STRING const char *
#define CONFIG_TYPE_PATH const char *
#define CONFIG_TYPE_UINT uint64_t
#define CONFIG_TYPE_SIZE uint64_t
#define CONFIG_TYPE_SECONDS uint64_t
#define CONFIG_TYPE_BOOL bool
#define CONFIG_TYPE_CHOICE const char *
#define CONFIG_FIELD(type, field, ...) CONFIG_TYPE_##type field;

struct config {
	SETTINGS_LIST(CONFIG_FIELD) /* strings are owned by the struct */
	bool tokens_credential;	    /* tokens_file is one of systemd's credentials */
	uid_t worker_uid;	    /* of worker_user */
	gid_t worker_gid;
};

enum { CONFIG_ERROR_MAX = 1024 };

/* Reads and checks all settings from env (NULL-terminated NAME=value strings), and secrets from
   the files it names. 0, or -EINVAL with a sentence per fault, each a line, in error; values of
   secrets are never in it. config_fini in every case. */
int config_load(struct config *c, char *const *env, char error[CONFIG_ERROR_MAX]);
/* Names that other trainers know, which are set and have no effect here yet: the n-th, or NULL. */
const char *config_without_effect(char *const *env, size_t n);
/* Wipes the secrets and frees; a zeroed struct is allowed. */
void config_fini(struct config *c);

/* One setting a line, NAME=value, defaults filled in, secrets hidden. */
void config_print(const struct config *c, FILE *out);
/* The table of settings: for --help, or as a Markdown table for the README. */
void config_help(FILE *out, bool markdown);

#endif
