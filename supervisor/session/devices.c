#include "supervisor/session/devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/log.h"
#include "supervisor/session/devices_find.h"
#include "supervisor/settings/config.h"

static const char *
fault_text(int error)
{
	switch (error) {
	case -ETIMEDOUT:
		return "it had not ended within STEPD_READY_TIMEOUT";
	case -EBADMSG:
		return "what it says is not the answer of a probe";
	case -ECHILD:
		return "it failed";
	default:
		return strerror(-error);
	}
}

static void
tell(const struct device *d, size_t index)
{
	if (d->verified)
		log_info("GPU %zu: %s, %s, %llu MiB, compute capability %s: a product is right",
		    index, d->name, d->uuid, (unsigned long long)(d->memory >> 20), d->capability);
	else
		log_error("GPU %zu: %s%s%s: not used: %s", index, d->name,
		    d->uuid[0] != '\0' ? ", " : "", d->uuid, d->error);
}

int
devices_start(struct stepd *s)
{
	const struct config *c = s->config;
	struct devices *all = calloc(1, sizeof(*all));
	int error;

	s->devices = all;
	if (all == NULL)
		return -ENOMEM;
	if (c->worker_cuda == NULL || strcmp(c->devices, "cpu") == 0)
		return 0;
	error = devices_find(c, all);
	if (error != 0)
		log_error("no GPU is used: %s --probe: %s", c->worker_cuda, fault_text(error));
	else if (all->count == 0 && all->driver)
		log_error("no GPU is used: %s; are its device nodes there? nvidia-modprobe -c0 -u "
			  "makes them",
		    all->error);
	else if (all->count == 0)
		log_info("there is no GPU%s%s", all->error[0] != '\0' ? ": " : "", all->error);
	for (size_t i = 0; i < all->count; i++) {
		tell(&all->at[i], i);
		s->health.cuda_available = true;
		s->health.cuda_verified |= all->at[i].verified;
	}
	return 0;
}

void
devices_free(struct stepd *s)
{
	free(s->devices);
	s->devices = NULL;
}
