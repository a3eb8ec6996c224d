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

/* What a look-up without an entry says: 0, there is none; or why it is not known. */
static int
lookup_error(const struct passwd *entry)
{
	switch (entry != NULL ? 0 : errno) {
	case 0:
	case ENOENT:
	case ESRCH:
	case EBADF:
	case EPERM:
		return 0;
	default:
		return -errno;
	}
}

int
config_user(const char *user, uid_t *uid, gid_t *gid)
{
	const struct passwd *entry;
	int error;

	errno = 0;
	entry = getpwnam(user);
	error = lookup_error(entry);
	if (error == 0 && entry == NULL && strcmp(user, "nobody") == 0) {
		*uid = NOBODY;
	} else if (error == 0 && entry == NULL) {
		if (number(user, uid) != 0)
			return -ENOENT;
		errno = 0;
		entry = getpwuid(*uid);
		error = lookup_error(entry);
	}
	if (error != 0)
		return error;
	if (entry != NULL)
		*uid = entry->pw_uid;
	*gid = entry != NULL ? entry->pw_gid : (gid_t)*uid;
	return 0;
}
