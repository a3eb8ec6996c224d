#include "worker/sandbox_gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* The file of libcuda, as it was found; NULL: an emulated one is a part of the program. */
static const char *
library_file(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	struct link_map *map;

	if (library == NULL || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
		return NULL;
	return map->l_name;
}

int
sandbox_gpu_rules(struct driver_rules *out, const struct driver_choice *choice, struct refusal *r)
{
	static struct driver_nodes nodes;

	if (driver_nodes_find(&nodes, "", choice, r) != 0)
		return -1;
	driver_rules_list(out, "", &nodes, library_file());
	return 0;
}

/* The driver names its threads, and gives up where it cannot. libc writes the names of other
   threads to files of /proc, which the superuser's stepd lets no program write; so what is linked
   for a GPU has this one in the place of libc's, and such names are lost. */
int
pthread_setname_np(pthread_t thread, const char *name)
{
	if (!pthread_equal(thread, pthread_self()))
		return 0;
	return prctl(PR_SET_NAME, name, 0, 0, 0) == 0 ? 0 : errno;
}

void
sandbox_gpu_environment(void)
{
	setenv("CUDA_CACHE_DISABLE", "1", 1);
}
