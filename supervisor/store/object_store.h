/* Inside the object store: what objects.c and api_objects.c share. */
#ifndef SUPERVISOR_STORE_OBJECT_STORE_H
#define SUPERVISOR_STORE_OBJECT_STORE_H

#include "supervisor/store/object_url.h"

struct objects {
	int dir_fd;
	unsigned char key[OBJECT_KEY_BYTES];
	uint64_t used;	   /* bytes of all objects */
	uint64_t reserved; /* bytes of objects on their way */
	char base[1100];
};

bool objects_have(const struct objects *o, const char *id);
/* Sets len bytes of the store aside for an object on its way, of the disk too where they are yet to
   be written. 0, or -ENOSPC. */
int objects_reserve(struct stepd *s, uint64_t len, bool to_be_written);
void objects_release(struct stepd *s, uint64_t len);
/* A nameless file for an object on its way. fd or -errno. */
int objects_temporary(struct objects *o);
/* Removes an object. 0, -ENOENT or -errno. */
int objects_remove(struct stepd *s, const char *id);

#endif
