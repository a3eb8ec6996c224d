#include "supervisor/settings/config_user.h"

#include <errno.h>
#include <pwd.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { NOBODY = 65534 }; /* where no database names it: the kernel's overflow uid */

/* Decimal digits alone; (uid_t)-1, which stands for no user, is none. */
static int
number(const char *text, uid_t *uid)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value >= (uid_t)-1)
		return -ENOENT;
	*uid = (uid_t)value;
	return 0;
}

int
config_user(const char *user, uid_t *uid, gid_t *gid)
{
	const struct passwd *entry = getpwnam(user);

	if (entry == NULL && strcmp(user, "nobody") == 0) {
		*uid = NOBODY;
	} else if (entry == NULL) {
		if (number(user, uid) != 0)
			return -ENOENT;
		entry = getpwuid(*uid);
	}
	if (entry != NULL)
		*uid = entry->pw_uid;
	*gid = entry != NULL ? entry->pw_gid : (gid_t)*uid;
	return 0;
}
