#include "supervisor/status/status_peer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/log.h"
#include "ipc/unix_path.h"

/* Nobody can be connected to there any more. 0 or -errno. */
static int
remove_stale(const char *path, const struct unix_path *u)
{
	struct stat st;
	int fd, error = 0;

	if (lstat(path, &st) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&u->address, u->len) == 0 || errno == EAGAIN)
		error = -EADDRINUSE;
	close(fd);
	if (error == 0 && unlink(path) != 0)
		error = -errno;
	return error;
}

/* The mode is set before it listens: until then nobody can connect. */
static int
bind_there(int fd, const char *path, const struct unix_path *u)
{
	if (bind(fd, (const struct sockaddr *)&u->address, u->len) != 0)
		return -errno;
	if (chmod(path, 0660) != 0) {
		int error = -errno;

		unlink(path);
		return error;
	}
	return 0;
}

int
status_peer_listen(const char *path)
{
	struct unix_path u;
	int fd = -1, error = unix_path_init(&u, path);

	if (error != 0)
		return error;
	error = remove_stale(path, &u);
	if (error == 0) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		error = fd < 0 ? -errno : bind_there(fd, path, &u);
	}
	unix_path_fini(&u);
	if (error == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return error;
}

/* Its groups beside the first one; kernels before 4.13 do not tell. */
static bool
has_group(int fd, gid_t group)
{
	socklen_t len = 0;
	gid_t *groups;
	bool found = false;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) == 0 || errno != ERANGE)
		return false;
	groups = malloc(len);
	if (groups != NULL && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) == 0) {
		for (size_t i = 0; i < len / sizeof(*groups); i++)
			found = found || groups[i] == group;
	}
	free(groups);
	return found;
}

bool
status_peer_may_ask(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
		return false;
	if (peer.uid == 0 || peer.uid == geteuid() || peer.gid == getegid() ||
	    has_group(fd, getegid()))
		return true;
	log_warning("the status socket: user %u (process %d) was turned away", (unsigned)peer.uid,
	    (int)peer.pid);
	return false;
}
