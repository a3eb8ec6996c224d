/*
 * The files of anchors in the spool: <session id>.<step>.<kind>. What is here blocks, and is called
 * from threads of its own, but for the names.
 */
#ifndef SUPERVISOR_SESSION_ANCHOR_FILE_H
#define SUPERVISOR_SESSION_ANCHOR_FILE_H

#include <stdbool.h>
#include <stdint.h>

enum { ANCHOR_NAME_SIZE = 80 };

void anchor_file_name(char name[ANCHOR_NAME_SIZE], const char *id, uint64_t step, uint8_t kind);
/* Is it on the disk, and what the digest (lower-case hex) says? 0, -EBADMSG, or -errno. */
int anchor_file_check(int fd, const char *sha256);
/* Gives an open file, or where it can have none a copy of it that was checked, a name that is on
   the disk; one of that name before it goes. 0 or -errno. */
int anchor_file_link(int fd, const char *sha256, const char *folder, const char *name);
/* Opens the file of a name and checks it, several times within a second where that may help.
   0 and *fd; or an error, with *fd to be closed unless it is -1. */
int anchor_file_find(int *fd, const char *folder, const char *name, const char *sha256);
/* Says this error that the file is not there, or another one? Any other may pass. */
bool anchor_file_is_wrong(int error);
void anchor_file_remove(const char *folder, const char *name);
/* Removes the files of anchors of which `is_left_over` says so. */
void anchor_file_each(const char *folder,
    bool (*is_left_over)(void *ctx, const char *id, const char *name), void *ctx);

#endif
