/*
 * The header block of a tar member in the ustar form, as writer and reader see it.
 * Source: POSIX.1-2017, pax, "ustar Interchange Format".
 */
#ifndef IPC_TAR_H
#define IPC_TAR_H

enum { TAR_BLOCK = 512 };

/* POSIX.1-2017, "ustar Header Block". */
struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8];
	char type;
	char linkname[100], magic[6], version[2], uname[32], gname[32], devmajor[8], devminor[8];
	char prefix[155], pad[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a header is one block");

/* Sum of all bytes of a header, those of its checksum counted as spaces. */
unsigned tar_checksum(const struct tar_header *h);

#endif
