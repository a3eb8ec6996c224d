/* A list in words for logs and status: ", " between its items, in storage of the caller. */
#ifndef IPC_LIST_TEXT_H
#define IPC_LIST_TEXT_H

#include <stddef.h>

/* Adds an item to a NUL-terminated list in `size` bytes; what does not fit is cut. */
void list_text_add(char *list, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
