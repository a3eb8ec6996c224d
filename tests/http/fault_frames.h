/* What a worker gone mad may send in the place of its answer: a frame that a seed chooses. */
#ifndef TESTS_HTTP_FAULT_FRAMES_H
#define TESTS_HTTP_FAULT_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/channel.h"

/* Sends frames of every wrong kind over the socket: random bytes, wrong types, numbers and bodies,
   descriptors where none belong, many, or of files that are no blobs, numbers at their ends. asked:
   what is answered, or NULL before READY. true: nothing that could be taken for the answer was
   sent, and the answer is owed. */
bool fault_frames(int socket, const struct message *asked, uint64_t seed);

#endif
