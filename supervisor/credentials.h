/*
 * What stepd shows and asks for at its door: its certificate, and the tokens of clients. Both can
 * be replaced while it runs: SIGHUP reads their files again.
 */
#ifndef SUPERVISOR_CREDENTIALS_H
#define SUPERVISOR_CREDENTIALS_H

struct config;
struct stepd;

/* Are they there, and right? Changes nothing. 0, or -EINVAL with a sentence in reason. */
int credentials_check(const struct config *c, char reason[512]);
/* Fills s->tls, tokens and backoff. 0, or -errno after a line in the log. */
int credentials_open(struct stepd *s);
/* Reads them again. What is wrong is logged and leaves the old in force, each by itself. */
void credentials_reload(struct stepd *s);
void credentials_close(struct stepd *s);

#endif
