/*
 * What systemd is told (sd_notify(3)), by datagrams to $NOTIFY_SOCKET; nothing where it is not set.
 *
 *	READY=1			the listener takes connections, and the store has kept a record
 *	STATUS=			a line for `systemctl status`
 *	RELOADING=1, READY=1	around a SIGHUP
 *	STOPPING=1		a stop began; EXTEND_TIMEOUT_USEC for as long as the loop turns
 *	WATCHDOG=1		at half of $WATCHDOG_USEC, if the loop turns and the store's
 *				thread has let no change wait longer than that
 */
#ifndef SUPERVISOR_NOTIFY_H
#define SUPERVISOR_NOTIFY_H

#include <stdbool.h>

struct stepd;

/* A part of the program (stepd.h), the last one: what it says is ready has been started. */
int notify_start(struct stepd *s);
bool notify_stop(struct stepd *s);
void notify_free(struct stepd *s);

/* Around the reading of settings again. */
void notify_reloading(struct stepd *s);
void notify_reloaded(struct stepd *s);

#endif
