/*
 * Why a request body was refused: validation errors in FastAPI's shape (a list of type, loc, msg),
 * or one sentence with its status. Both become the "detail" of the answer. The list never holds a
 * value of the request, only names of its fields, and is capped in entries and in length.
 */
#ifndef IPC_FAULT_H
#define IPC_FAULT_H

#include <stdbool.h>
#include <stddef.h>

#include "ipc/json_write.h"

enum {
	FAULTS_MAX = 1000,	       /* entries; what comes after is not listed */
	FAULTS_SIZE_MAX = 1024 * 1024, /* bytes of the list */
	FAULT_KEY_MAX = 1024,	       /* bytes of a field's name in loc; longer ones are cut */
};

/* Where in the body something is: a chain of steps on the caller's stack, innermost first. */
struct place {
	const struct place *up; /* NULL at the root */
	const char *key;	/* a member, or NULL: an element */
	size_t key_len;
	size_t index;
};

extern const struct place place_body; /* ["body"] */

struct faults {
	struct json_writer list; /* the entries, without their brackets */
	size_t count;		 /* entries found, also those not listed */
	unsigned status;	 /* 0 while there is no fault */
	const char *sentence;	 /* in the place of a list; a constant */
};

void faults_init(struct faults *f);
void faults_fini(struct faults *f);
/* Adds an entry; the status becomes 422. type is a constant of Pydantic's. */
void faults_add(struct faults *f, const struct place *at, const char *type, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Refuses the whole body by one public sentence (a constant) and drops the entries. */
void faults_refuse(struct faults *f, unsigned status, const char *sentence);
bool faults_any(const struct faults *f);
/* The status of the answer. */
unsigned faults_status(const struct faults *f);
/* The JSON of "detail", a list or a string: NUL-terminated, the caller frees it. NULL: no memory.
 */
char *faults_detail(const struct faults *f, size_t *len);

/* A point to go back to: faults_rewind drops the entries added since. */
struct faults_mark {
	size_t len, count;
	bool comma;
};
struct faults_mark faults_mark(const struct faults *f);
void faults_rewind(struct faults *f, struct faults_mark mark);

#endif
