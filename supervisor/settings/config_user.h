/*
 * The user that workers of the superuser become: STEPD_WORKER_USER as numbers.
 */
#ifndef SUPERVISOR_SETTINGS_CONFIG_USER_H
#define SUPERVISOR_SETTINGS_CONFIG_USER_H

#include <sys/types.h>

/* A name of the user database, or a number, which need not be in it. The group is the user's, of a
   number that is not in it the same number. 0; -ENOENT: no such user; or what keeps
   the database from telling. */
int config_user(const char *user, uid_t *uid, gid_t *gid);

#endif
