#include "supervisor/session/devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/session/devices_again.h"
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
	else if (!d->held)
		log_error("GPU %zu: %s%s%s: not used: %s", index, d->name,
		    d->uuid[0] != '\0' ? ", " : "", d->uuid, d->error);
}

static bool
is_known(const struct devices *known, const struct device *d)
{
	const struct device *k = devices_by_uuid(known, d->uuid);

	return k != NULL && k->verified == d->verified && strcmp(k->error, d->error) == 0;
}

void
devices_take(struct stepd *s, const struct devices *found, int error)
{
	if (error != 0)
		log_error(
		    "no GPU is used: %s --probe: %s", s->config->worker_cuda, fault_text(error));
	else if (found->count == 0 && found->driver)
		log_error("no GPU is used: %s; are its device nodes there? nvidia-modprobe -c0 -u "
			  "makes them",
		    found->error);
	else if (found->count == 0)
		log_info("there is no GPU%s%s", found->error[0] != '\0' ? ": " : "", found->error);
	s->health.cuda_available = found->count > 0;
	s->health.cuda_verified = false;
	for (size_t i = 0; i < found->count; i++) {
		const struct device *d = &found->at[i];

		if (!is_known(s->devices, d))
			tell(d, i);
		s->health.cuda_verified |= d->verified || d->held;
	}
	*s->devices = *found;
}

bool
devices_wanted(const struct config *c)
{
	return c->worker_cuda != NULL && strcmp(c->devices, "cpu") != 0;
}

/* Who wants a GPU, or has one, learns why the CPU trains, or nothing does. */
static void
tell_no_worker(const struct config *c)
{
	if (strcmp(c->devices, "cpu") == 0 || c->worker_cuda != NULL)
		return;
	if (strcmp(c->devices, "auto") != 0 || access("/proc/driver/nvidia/version", F_OK) == 0)
		log_error("no GPU is used: there is no stepd-worker-cuda beside stepd (make cuda "
			  "builds it), nor is STEPD_WORKER_CUDA set");
}

int
devices_start(struct stepd *s)
{
	struct devices found;
	int error;

	s->devices = calloc(1, sizeof(*s->devices));
	if (s->devices == NULL)
		return -ENOMEM;
	tell_no_worker(s->config);
	if (!devices_wanted(s->config))
		return 0;
	error = devices_find(s->config, NULL, NULL, &found);
	devices_take(s, &found, error);
	return devices_again_start(s);
}

bool
devices_stop(struct stepd *s)
{
	devices_again_stop(s);
	return true;
}

void
devices_free(struct stepd *s)
{
	devices_again_free(s);
	free(s->devices);
	s->devices = NULL;
}
