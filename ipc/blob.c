#include "ipc/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/file.h"

enum { EVERY_SEAL = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE };

int
blob_new(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return fd < 0 ? -errno : fd;
}

int
blob_write(int fd, const void *data, size_t len)
{
	return file_write(fd, data, len);
}

int
blob_seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, EVERY_SEAL) < 0 ? -errno : 0;
}

int
blob_from(const char *name, const void *data, size_t len)
{
	int fd = blob_new(name), rc;

	if (fd < 0)
		return fd;
	rc = blob_write(fd, data, len);
	if (rc == 0)
		rc = blob_seal(fd);
	if (rc != 0) {
		close(fd);
		return rc;
	}
	return fd;
}

bool
blob_is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & EVERY_SEAL) == EVERY_SEAL;
}

int
blob_map(struct blob_view *view, int fd)
{
	return blob_map_most(view, fd, SIZE_MAX);
}

int
blob_map_most(struct blob_view *view, int fd, size_t most)
{
	struct stat st;
	void *data;

	*view = (struct blob_view){.data = ""};
	if (!blob_is_sealed(fd))
		return -EPERM;
	if (fstat(fd, &st) != 0)
		return -errno;
	if ((uintmax_t)st.st_size > most)
		return -EFBIG;
	if (st.st_size == 0)
		return 0;
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return -errno;
	*view = (struct blob_view){.data = data, .len = (size_t)st.st_size, .mapped = true};
	return 0;
}

void
blob_unmap(struct blob_view *view)
{
	if (view->mapped)
		munmap((void *)(uintptr_t)view->data, view->len);
	*view = (struct blob_view){.data = ""};
}
