/* What ends or holds a worker, the same at every message. */
#ifndef TESTS_HTTP_FAULT_ACT_H
#define TESTS_HTTP_FAULT_ACT_H

#include "ipc/channel.h"

/* Does what `fault` says to the worker of that channel; other faults are nothing here. kill,
   crash, sandbox and violate end it by a signal, exit, clean and words by a status; hang, stubborn,
   garbage and close hold it for ever, slow for two seconds. */
void fault_act(struct channel *channel, const char *fault);

/* Takes memory until it gets none, then gives it back: what a limit lets it. */
void fault_eat(void);

#endif
