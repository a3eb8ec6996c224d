/*
 * The address of a Unix socket in the file system, also where its path is longer than the 107 bytes
 * that an address holds: then it goes through a descriptor of its folder.
 */
#ifndef IPC_UNIX_PATH_H
#define IPC_UNIX_PATH_H

#include <sys/socket.h>
#include <sys/un.h>

struct unix_path {
	struct sockaddr_un address;
	socklen_t len;
	int folder; /* held while the address is used, or -1 */
};

/* 0; -ENAMETOOLONG where the last part alone is too long; or -errno of the folder. */
int unix_path_init(struct unix_path *u, const char *path);
void unix_path_fini(struct unix_path *u);

#endif
