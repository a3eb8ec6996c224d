/*
 * The worker's only dispatcher: takes one request after the other from the channel, has the session
 * do it, and sends exactly one answer for each. Where its device failed meanwhile, it says its last
 * words in the place of the answer and ends the process.
 */
#ifndef WORKER_LOOP_H
#define WORKER_LOOP_H

/* Says READY on the channel and serves until CLOSE or the end of the channel. Consumes fd. 0, or
   -errno when the channel failed or stepd sent what does not decode. */
int loop_run(int fd);

#endif
