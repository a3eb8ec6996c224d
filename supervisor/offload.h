/*
 * Work that blocks (fsync of a large file), done in a thread of its own, its end told in the event
 * loop. Rare and long: a thread is started for each.
 */
#ifndef SUPERVISOR_OFFLOAD_H
#define SUPERVISOR_OFFLOAD_H

struct event_base;
struct offload;

/* Runs work(arg) in a thread; when it has returned, done(arg, its result) is called from the loop.
   Where no thread can be had, the loop's runs work at once. work touches nothing that the loop's
   thread uses meanwhile. */
void offload_start(struct event_base *base, int (*work)(void *arg),
    void (*done)(void *arg, int result), void *arg);

/* Waits for every thread, and calls done for each: for the end of the program. */
void offload_finish(void);

#endif
