/*
 * The object store in stepd: files under the state folder, put once and read at signed URLs that
 * expire, so that a machine needs nothing else to save artifacts and to resume from them.
 *
 * The URLs are those of object_url.h, signed with a key in the state folder. A URL is a secret: it
 * is never logged.
 */
#ifndef SUPERVISOR_STORE_OBJECTS_H
#define SUPERVISOR_STORE_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

struct http_request;
struct route_sink;
struct stepd;

enum object_verb { OBJECT_GET, OBJECT_PUT };

/* An object that a valid URL names. */
struct object_ref {
	char id[33];
	enum object_verb verb;
	uint64_t limit; /* largest size that may be put */
};

/* Parts of the program (stepd.h). */
int objects_start(struct stepd *s);
void objects_free(struct stepd *s);

/* Is url one of this store? 1 and *ref filled, by its signature, whatever name of this machine it
   carries; -EACCES: it is ours, by its signature or its address, but expired, for the other verb,
   or badly signed; 0: somebody else's. Touches no file, no network. */
int objects_resolve(
    struct stepd *s, const char *url, enum object_verb verb, struct object_ref *ref);
/* Opens an object for reading: fd and *size, or -ENOENT, -errno. */
int objects_open(struct stepd *s, const struct object_ref *ref, uint64_t *size);
/* Puts the regular file fd (whole; of the state folder's file system, so no byte is copied; its
   writer is done with it, for it becomes the object) durably in the place of ref, without blocking
   the loop. done is called from the loop, exactly once, with 0, -EEXIST (put before), -EFBIG,
   -ENOSPC or -errno. Consumes fd. */
void objects_put(struct stepd *s, const struct object_ref *ref, int fd,
    void (*done)(void *arg, int error), void *arg);

/* Where clients reach this stepd: "https://127.0.0.1:8321". A view. */
const char *objects_base(struct stepd *s);

/* Routes (api_objects.c). */
void api_objects_sign(struct stepd *s, struct http_request *r);
int api_object_put_begin(struct stepd *s, struct http_request *r, struct route_sink *sink);
void api_object_put(struct stepd *s, struct http_request *r);
int api_object_get_begin(struct stepd *s, struct http_request *r, struct route_sink *sink);
void api_object_get(struct stepd *s, struct http_request *r);
void api_object_delete(struct stepd *s, struct http_request *r);

#endif
