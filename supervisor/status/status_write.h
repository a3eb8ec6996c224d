/*
 * The status document: one JSON object with everything that an operator asks of a stepd. No token,
 * no URL, no training text is in it, nor anything that a client wrote but the name of its model.
 */
#ifndef SUPERVISOR_STATUS_STATUS_WRITE_H
#define SUPERVISOR_STATUS_STATUS_WRITE_H

#include <stdint.h>

#include "ipc/json_write.h"
#include "supervisor/status/status_facts.h"

struct stepd;

enum {
	STATUS_SCHEMA = 1,
	STATUS_SESSIONS_MAX = 256, /* those that are listed, the newest; closed ones are not */
};

/* facts: NULL where none could be read in time. started: monotonic seconds. */
void status_write(
    struct stepd *s, const struct status_facts *facts, double started, struct json_writer *w);

/* status_sessions.c: the members `slots` and `sessions`. */
void status_write_sessions(
    struct stepd *s, const struct status_facts *facts, struct json_writer *w);
/* status_attention.c: the member `attention`: sentences about what somebody has to act on. */
void status_write_attention(
    struct stepd *s, const struct status_facts *facts, struct json_writer *w);

#endif
