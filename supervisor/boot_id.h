/* Which start of the machine this is. */
#ifndef SUPERVISOR_BOOT_ID_H
#define SUPERVISOR_BOOT_ID_H

enum { BOOT_ID = 40 };

/* The kernel's random id of it, "" where it is not known. root is "" but in tests: /proc is looked
   for below it. */
void boot_id_read(char out[BOOT_ID], const char *root);

#endif
