#include "worker/sandbox_gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* The folder of libcuda, or NULL: an emulated one is a part of the program. */
static const char *
library_folder(char *out, size_t size)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	struct link_map *map;
	char *end;

	if (library == NULL || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 ||
	    strlen(map->l_name) >= size)
		return NULL;
	memcpy(out, map->l_name, strlen(map->l_name) + 1);
	end = strrchr(out, '/');
	if (end == NULL || end == out)
		return NULL;
	*end = '\0';
	return out;
}

int
sandbox_gpu_rules(struct driver_rules *out, const struct driver_choice *choice, struct refusal *r)
{
	static struct driver_nodes nodes;
	char folder[DRIVER_PATH_MAX];

	if (driver_nodes_find(&nodes, "", choice, r) != 0)
		return -1;
	driver_rules_list(out, "", &nodes, library_folder(folder, sizeof(folder)));
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
