/* What a worker says of itself before it ends: stepd classifies its end by it. */
#ifndef WORKER_LAST_WORDS_H
#define WORKER_LAST_WORDS_H

struct channel;

/* class: of stepd's list of ends; text: one sentence for the log, no training text. A channel that
   takes nothing is the end too: nothing is reported. */
void last_words_say(struct channel *channel, const char *class, const char *text);

#endif
