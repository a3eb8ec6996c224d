/* Seconds of the clock that only goes forward: for deadlines and durations. */
#ifndef IPC_MONOTONIC_H
#define IPC_MONOTONIC_H

double monotonic_seconds(void);

#endif
