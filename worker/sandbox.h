/*
 * What a worker gives up before it reads anything that others wrote: a hostile model file or body
 * that takes it over finds no network, no program to start, no other process and no other file.
 *
 * Two steps, each for good: sandbox_enter at the start, and sandbox_files when the model is known.
 * A third one for a worker that computes on a GPU: the driver starts threads, sockets and whatever
 * it likes, so between these two and sandbox_close it starts, and nothing that others wrote is
 * read. What the kernel does not offer is left out and said in sandbox_text; what it does offer is
 * tried from inside, and a worker that gets through its own sandbox does not serve.
 */
#ifndef WORKER_SANDBOX_H
#define WORKER_SANDBOX_H

#include "ipc/refusal.h"
#include "worker/driver_nodes.h"

/* Before sandbox_enter: this worker needs NVIDIA's driver, for that device (views that stay). */
void sandbox_for_gpu(const struct driver_choice *device);

/* Before the first thread. `setting` is STEPD_SANDBOX: "off", else (NULL too) whatever there is;
   `user`, of STEPD_WORKER_USER, whom the superuser becomes ("uid:gid"; NULL: stays who it is).
   A forbidden system call from here on says so in LAST_WORDS on `channel` and ends the process by
   SIGSYS. 0, or -1 when something forbidden worked nevertheless (it was logged). */
int sandbox_enter(int channel, const char *setting, const char *user);

/* From now on no file opens but those of this model (a folder or a file; its links lead where they
   lead now; NULL: no model) and the few that libraries read, with the nodes of the GPU. Before the
   first thread. 0, or -1 with *r. */
int sandbox_files(const char *model_path, struct refusal *r);

/* From now on, on all threads, no system calls but those of a driver that has started. Nothing
   where there is no GPU. 0, or -1 with *r. */
int sandbox_close(struct refusal *r);

/* What holds, for the log: "off", or "system calls, network, capabilities, files; without ...". */
const char *sandbox_text(void);

#endif
