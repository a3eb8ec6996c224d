/*
 * Why something was refused: one public sentence and the HTTP status it answers with. A
 * refusal changed nothing. The sentence names the field, the file or the limit and holds no
 * training text.
 */
#ifndef IPC_REFUSAL_H
#define IPC_REFUSAL_H

struct refusal {
	unsigned
	    status; /* HTTP: 422 for what the client can mend, 503 and 507 for what it cannot */
	char text[1000];
};

/* The contract's words for a datum that the worker does not have. stepd knows them again: while it
   brings a session back, they say that the client has to render. */
#define REFUSAL_UNKNOWN_DATUM "the batch names an unknown rendered datum"

/* Fills *r (longer sentences are cut) and returns -1, for `return refuse(r, 422, "...")`. */
int refuse(struct refusal *r, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
