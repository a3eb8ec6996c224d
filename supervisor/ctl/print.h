/* What stepctl prints of what others wrote: their text, their JSON. */
#ifndef SUPERVISOR_CTL_PRINT_H
#define SUPERVISOR_CTL_PRINT_H

#include <stdio.h>

#include "ipc/json_write.h"

/* Text of the service's on a terminal: control characters, which could command it, as '?'. */
void print_text(FILE *to, const char *text);
/* The same, but ends of lines and tabs stay. */
void print_lines(FILE *to, const char *text);
/* The JSON on a line of stdout; ends the writer. 0, or CTL_FAILED after a line on stderr: there was
   no memory for it. */
int print_json(struct json_writer *w);

/* A whole number of an object, 0 where there is none. */
long long number_of(struct json object, const char *key);

#endif
