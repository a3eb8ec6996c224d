/* Where a secret setting comes from: its variable, the file that NAME_FILE names, or systemd's
   credentials. */
#ifndef SUPERVISOR_SETTINGS_CONFIG_SECRET_H
#define SUPERVISOR_SETTINGS_CONFIG_SECRET_H

/* value, file, credentials: NAME, NAME_FILE and CREDENTIALS_DIRECTORY of the environment, NULL
   where unset. A file must belong to this user (or root) and be closed to group and others, but for
   those of systemd, which sees to it itself: there the file is called name in lower case. One line
   end after the secret is dropped. 0 with *out (to be wiped and freed; NULL: there is none), or
   -EINVAL with a sentence in reason, never the secret. */
int config_secret(char **out, const char *name, const char *value, const char *file,
    const char *credentials, char reason[256]);

#endif
