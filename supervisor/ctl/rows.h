/*
 * Training rows: JSON lines, `{"messages": [...]}` or `{"prompt": "...", "completion": "..."}`,
 * read and judged before anything is sent. Other keys of a row are ignored.
 */
#ifndef SUPERVISOR_CTL_ROWS_H
#define SUPERVISOR_CTL_ROWS_H

#include <stddef.h>

struct row {
	char *messages; /* JSON array, owned by the rows */
	size_t bytes;	/* of the texts: what the length is guessed from before tokens are known */
	size_t line;	/* from 1 */
};

struct rows {
	const char *path; /* the caller's */
	struct row *rows;
	size_t count;
};

/* Reads the file at path. 0, or -1 after a line on stderr `path:line: what is wrong`. */
int rows_read(struct rows *r, const char *path);
void rows_fini(struct rows *r);

#endif
