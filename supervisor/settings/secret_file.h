/* Files that hold secrets: who may own them and who may read them. */
#ifndef SUPERVISOR_SETTINGS_SECRET_FILE_H
#define SUPERVISOR_SETTINGS_SECRET_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the whole file, at most max bytes. strict: it must belong to this user (or root) and be
   closed to group and others; systemd's credentials are not judged so, for it sees to it itself.
   what names the setting in the reason. 0 with *out (NUL-terminated text without NULs, for
   secret_free), or -EINVAL with a sentence in reason, never a part of the file. */
int secret_file_read(
    char **out, const char *path, bool strict, size_t max, const char *what, char reason[256]);
/* Wipes and frees; NULL is allowed. */
void secret_free(char *secret);

#endif
