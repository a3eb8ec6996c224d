#include "supervisor/session/datum_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/file.h"
#include "ipc/log.h"
#include "ipc/wire.h"
#include "supervisor/offload.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"
#include "supervisor/store/seal.h"

enum { HEADER = 8, ID_LENGTH = 32, ABOUT_SIZE = 96 };

/* What a thread does for a session, which waits for it in one state. */
struct datum_job {
	struct session *s;
	char path[PATH_MAX], id[SESSION_ID_SIZE];
	const struct seal_key *key;
	struct datum_file file;
	uint8_t *bytes; /* append: header and sealed part */
	size_t len;
	struct datum_log log; /* read */
};

void
datum_file_init(struct datum_file *file)
{
	*file = (struct datum_file){.fd = -1};
}

void
datum_file_fini(struct datum_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	datum_file_init(file);
}

static int
folder_path(const struct stepd *stepd, char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s/datums", stepd->config->state_dir);

	return n > 0 && n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int
file_path(const struct session *s, char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s/datums/%s", s->stepd->config->state_dir, s->record.id);

	return n > 0 && n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static void
write_about(char about[ABOUT_SIZE], const char *id, uint64_t number)
{
	snprintf(about, ABOUT_SIZE, "datums %s %llu", id, (unsigned long long)number);
}

/* Of a session that goes on, or of one that this stepd cannot read? A store that knows none may be
   another than the one these files go with. */
static bool
is_wanted(struct stepd *stepd, const char *id)
{
	const struct session *s = sessions_find(stepd, id);

	if (stepd->sessions->first == NULL)
		return true;
	return s != NULL ? s->state != SESSION_CLOSED : !sessions_is_unknown(stepd, id);
}

int
datum_file_start(struct stepd *stepd)
{
	char folder[PATH_MAX];
	struct dirent *entry;
	DIR *dir;
	int error = folder_path(stepd, folder);

	if (error != 0)
		return error;
	if (stepd->config->persist_data && mkdir(folder, 0700) != 0 && errno != EEXIST)
		return -errno;
	dir = opendir(folder);
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.' ||
		    (stepd->config->persist_data && is_wanted(stepd, entry->d_name)))
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) != 0)
			log_warning("old datums stay: %s", strerror(errno));
	}
	if (dir != NULL)
		closedir(dir);
	return 0;
}

static struct datum_job *
job_new(struct session *s)
{
	struct datum_job *job = calloc(1, sizeof(*job));

	if (job == NULL || file_path(s, job->path) != 0) {
		free(job);
		return NULL;
	}
	job->s = s;
	memcpy(job->id, s->record.id, sizeof(job->id));
	job->key = &s->stepd->sessions->seal_key;
	job->file = s->datum_file;
	datum_log_init(&job->log);
	return job;
}

static void
job_free(struct datum_job *job)
{
	datum_log_fini(&job->log);
	free(job->bytes);
	free(job);
}

/* The folder's own entry has to be on the disk too. */
static int
sync_folder(const char *path)
{
	char folder[PATH_MAX];
	int fd, error = 0;

	snprintf(folder, sizeof(folder), "%s", path);
	*strrchr(folder, '/') = '\0';
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) != 0)
		error = -errno;
	if (fd >= 0)
		close(fd);
	return error;
}

static int
append(void *arg)
{
	struct datum_job *job = arg;
	struct datum_file *file = &job->file;
	bool made = file->fd < 0;
	int error = 0;

	if (made)
		file->fd =
		    open(job->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file->fd < 0)
		return -errno;
	error = file_write_at(file->fd, job->bytes, job->len, file->size);
	if (error == 0 && fdatasync(file->fd) != 0)
		error = -errno;
	if (error == 0 && made)
		error = sync_folder(job->path);
	if (error == 0) {
		file->size += job->len;
		file->count++;
	} else if (ftruncate(file->fd, (off_t)file->size) != 0) {
		/* The next part is written over it. */
	}
	return error;
}

static void
tell(struct datum_job *job, int error)
{
	struct session_input none = {0};
	struct session *s = job->s;

	job_free(job);
	if (!s->stepd->sessions->ending)
		session_event(s, error == 0 ? EV_KEPT : EV_NOT_KEPT, &none);
}

static void
on_appended(void *arg, int error)
{
	struct datum_job *job = arg;

	job->s->datum_file = job->file;
	if (error != 0)
		log_error(
		    "session %s: its datums are not on the disk: %s", job->id, strerror(-error));
	tell(job, error);
}

void
datum_file_append(struct session *s, const void *data, size_t len)
{
	struct session_input none = {0};
	struct datum_job *job = job_new(s);
	char about[ABOUT_SIZE];

	if (job != NULL) {
		job->len = HEADER + len + SEAL_OVERHEAD;
		job->bytes = malloc(job->len);
	}
	if (job == NULL || job->bytes == NULL) {
		if (job != NULL)
			job_free(job);
		session_event(s, EV_NOT_KEPT, &none);
		return;
	}
	for (int i = 0; i < HEADER; i++)
		job->bytes[i] = (uint8_t)((uint64_t)(len + SEAL_OVERHEAD) >> (56 - 8 * i));
	write_about(about, job->id, s->datum_file.count);
	seal_bytes(job->key, about, data, len, job->bytes + HEADER);
	offload_start(s->stepd->base, append, on_appended, job);
}

/* The next part into the log. 0, -ENODATA: there is no whole one, or -errno. */
static int
read_part(struct datum_job *job, uint64_t end)
{
	struct datum_file *file = &job->file;
	uint8_t header[HEADER], *sealed, *plain;
	char about[ABOUT_SIZE];
	uint64_t len = 0;
	int error = file_read_at(file->fd, header, HEADER, file->size);

	for (int i = 0; i < HEADER; i++)
		len = len << 8 | header[i];
	if (error != 0)
		return error;
	if (len < SEAL_OVERHEAD || len > end - file->size - HEADER)
		return -ENODATA;
	sealed = malloc(len);
	plain = malloc(len);
	error = sealed == NULL || plain == NULL
		    ? -ENOMEM
		    : file_read_at(file->fd, sealed, len, file->size + HEADER);
	write_about(about, job->id, file->count);
	if (error == 0)
		error = seal_bytes_open(job->key, about, sealed, len, plain);
	if (error == 0) {
		error = datum_log_add(&job->log, plain, len - SEAL_OVERHEAD);
		error = error > 0 ? 0 : error;
	}
	free(sealed);
	free(plain);
	if (error == 0) {
		file->size += HEADER + len;
		file->count++;
	}
	return error;
}

static int
read_all(void *arg)
{
	struct datum_job *job = arg;
	struct datum_file *file = &job->file;
	struct stat st;
	int error = 0;

	if (file->fd < 0)
		file->fd = open(job->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (file->fd < 0)
		return errno == ENOENT ? 0 : -errno;
	file->size = file->count = 0;
	if (fstat(file->fd, &st) != 0)
		return -errno;
	while (error == 0 && file->size < (uint64_t)st.st_size)
		error = read_part(job, (uint64_t)st.st_size);
	/* What a crash cut was never answered. */
	return error == -ENODATA ? 0 : error;
}

static void
on_read(void *arg, int error)
{
	struct datum_job *job = arg;

	if (error != 0)
		log_error("session %s: its datums on the disk cannot be read behind part %llu: %s",
		    job->id, (unsigned long long)job->file.count,
		    error == -ENOMEM ? "no memory" : seal_reason(error));
	else if (job->file.count > 0)
		log_info("session %s: %llu parts of datums are back", job->id,
		    (unsigned long long)job->file.count);
	job->s->datum_file = job->file;
	datum_log_fini(&job->s->datums);
	job->s->datums = job->log;
	datum_log_init(&job->log);
	tell(job, 0);
}

void
datum_file_read(struct session *s)
{
	struct session_input none = {0};
	struct datum_job *job = job_new(s);

	if (job == NULL)
		session_event(s, EV_KEPT, &none);
	else
		offload_start(s->stepd->base, read_all, on_read, job);
}

void
datum_file_drop(struct session *s)
{
	char path[PATH_MAX];

	datum_file_fini(&s->datum_file);
	if (s->stepd->config->persist_data && file_path(s, path) == 0 && unlink(path) != 0 &&
	    errno != ENOENT)
		log_warning(
		    "session %s: its datums stay on the disk: %s", s->record.id, strerror(errno));
}
