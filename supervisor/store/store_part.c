/* The store as a part of the program. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ipc/log.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

int
store_start(struct stepd *s)
{
	char folder[PATH_MAX];
	int error, n;

	n = snprintf(folder, sizeof(folder), "%s/store", s->config->state_dir);
	if (n < 0 || n >= (int)sizeof(folder))
		return -ENAMETOOLONG;
	error = store_open(&s->store, s->base, folder);
	if (error == -EPROTO)
		log_error("the store in STEPD_STATE_DIR was written by a newer stepd; it was left "
			  "as it is");
	else if (error == -EBADMSG)
		log_error("the store in STEPD_STATE_DIR was left as it is: put a good copy in its "
			  "place, or move it away to begin without its sessions");
	else if (error != 0)
		log_error("the store in STEPD_STATE_DIR does not open: %s", strerror(-error));
	return error;
}

void
store_free(struct stepd *s)
{
	store_close(s->store);
	s->store = NULL;
}
