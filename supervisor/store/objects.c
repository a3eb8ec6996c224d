#include "supervisor/store/objects.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/settings/config.h"
#include "supervisor/http/http_server.h"
#include "supervisor/store/object_store.h"
#include "supervisor/offload.h"
#include "supervisor/state.h"
#include "supervisor/stepd.h"

static const char key_file[] = "objects.key";
static const char partial[] = ".partial";

static int
read_key(int state_fd, unsigned char key[OBJECT_KEY_BYTES])
{
	int fd = openat(state_fd, key_file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	ssize_t len;
	int rc = 0;

	if (fd < 0 && errno == ENOENT) {
		randombytes_buf(key, OBJECT_KEY_BYTES);
		return state_file_write(state_fd, key_file, key, OBJECT_KEY_BYTES);
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size != OBJECT_KEY_BYTES)
		rc = -EINVAL;
	else if ((st.st_mode & 077) != 0) /* whoever read it can sign URLs */
		rc = -EACCES;
	len = rc == 0 ? read(fd, key, OBJECT_KEY_BYTES) : OBJECT_KEY_BYTES;
	close(fd);
	return len == OBJECT_KEY_BYTES ? rc : -EINVAL;
}

/* Adds up what is there, and removes what was never finished. */
static int
scan(struct objects *o)
{
	int fd = openat(o->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	while ((entry = readdir(dir)) != NULL) {
		const char *dot = strrchr(entry->d_name, '.');
		struct stat st;

		if (dot != NULL && strcmp(dot, partial) == 0)
			unlinkat(o->dir_fd, entry->d_name, 0);
		else if (fstatat(o->dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			 S_ISREG(st.st_mode))
			o->used += (uint64_t)st.st_size;
	}
	closedir(dir);
	return 0;
}

int
objects_start(struct stepd *s)
{
	struct objects *o = calloc(1, sizeof(*o));
	int rc;

	if (o == NULL)
		return -ENOMEM;
	s->objects = o;
	o->dir_fd = state_folder(s->state_fd, "objects");
	if (o->dir_fd < 0)
		return o->dir_fd;
	rc = read_key(s->state_fd, o->key);
	if (rc == -EACCES)
		log_error("%s in STEPD_STATE_DIR is open to others, or cannot be read: its mode "
			  "must be 0600",
		    key_file);
	else if (rc == -EINVAL)
		log_error(
		    "%s in STEPD_STATE_DIR is no file of %d bytes", key_file, OBJECT_KEY_BYTES);
	else if (rc != 0)
		log_error("%s: %s", key_file, strerror(-rc));
	return rc == 0 ? scan(o) : rc;
}

void
objects_free(struct stepd *s)
{
	struct objects *o = s->objects;

	if (o == NULL)
		return;
	offload_finish(); /* puts under way still need the folder */
	if (o->dir_fd >= 0)
		close(o->dir_fd);
	sodium_memzero(o->key, sizeof(o->key));
	free(o);
	s->objects = NULL;
}

const char *
objects_base(struct stepd *s)
{
	struct objects *o = s->objects;
	const char *scheme = s->config->tls_cert != NULL ? "https" : "http", *address, *port;
	char host[256] = "localhost";

	if (*o->base != '\0' || s->http == NULL) /* before it listens, it has no address */
		return o->base;
	address = http_server_address(s->http, 0);
	port = strrchr(address, ':');
	if (s->config->public_url != NULL) {
		snprintf(o->base, sizeof(o->base), "%s", s->config->public_url);
	} else if (strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0) {
		gethostname(host, sizeof(host) - 1);
		snprintf(o->base, sizeof(o->base), "%s://%s%s", scheme, host, port);
	} else {
		snprintf(o->base, sizeof(o->base), "%s://%s", scheme, address);
	}
	return o->base;
}

int
objects_resolve(struct stepd *s, const char *url, enum object_verb verb, struct object_ref *ref)
{
	const char *base = objects_base(s);
	size_t len;

	switch (object_url_read(ref, s->objects->key, verb, url, time(NULL), &len)) {
	case 0:
		return 1;
	case -ESTALE:
		return -EACCES;
	case -EACCES:
		/* badly signed: still ours if it points at us */
		return strlen(base) == len && strncmp(base, url, len) == 0 ? -EACCES : 0;
	default:
		return 0;
	}
}

int
objects_open(struct stepd *s, const struct object_ref *ref, uint64_t *size)
{
	struct stat st;
	int fd = openat(s->objects->dir_fd, ref->id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -ENOENT;
	}
	*size = (uint64_t)st.st_size;
	return fd;
}

bool
objects_have(const struct objects *o, const char *id)
{
	return faccessat(o->dir_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int
objects_reserve(struct stepd *s, uint64_t len, bool to_be_written)
{
	struct objects *o = s->objects;
	uint64_t taken = o->used + o->reserved;
	struct statvfs fs;

	if (taken > s->config->object_space || len > s->config->object_space - taken)
		return -ENOSPC;
	if (to_be_written && fstatvfs(o->dir_fd, &fs) == 0) {
		uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;
		uint64_t keep = s->config->disk_reserve + o->reserved;

		if (left < keep || left - keep < len)
			return -ENOSPC;
	}
	o->reserved += len;
	return 0;
}

void
objects_release(struct stepd *s, uint64_t len)
{
	s->objects->reserved -= len;
}

int
objects_temporary(struct objects *o)
{
	char name[64];
	unsigned char random[16];
	int fd = openat(o->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd >= 0 ? fd : -errno;
	/* a file system without nameless files: the name is taken away at once */
	randombytes_buf(random, sizeof(random));
	sodium_bin2hex(name, sizeof(name), random, sizeof(random));
	strcat(name, partial);
	fd = openat(o->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	unlinkat(o->dir_fd, name, 0);
	return fd;
}

int
objects_remove(struct stepd *s, const char *id)
{
	struct object_ref ref = {.verb = OBJECT_GET};
	struct objects *o = s->objects;
	uint64_t size;
	int fd;

	if (strlen(id) != sizeof(ref.id) - 1 || id[strspn(id, "0123456789abcdef")] != '\0')
		return -ENOENT;
	memcpy(ref.id, id, sizeof(ref.id));
	fd = objects_open(s, &ref, &size);
	if (fd < 0)
		return fd;
	close(fd);
	if (unlinkat(o->dir_fd, id, 0) != 0)
		return -errno;
	o->used -= size;
	return 0;
}
