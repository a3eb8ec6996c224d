/* Which calls fail: see fail.h. */
#include <cublas_v2.h>

#include "emu.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

enum { FRAMES = 8 }; /* that tell one call from another */

static emu_fail_page own, *page = &own;
static std::mutex lock;
static cudaError_t last_error, dead, dying; /* dying: dead, and nobody was told */

#define EMU_NAME(name, text, ...) text,
static const char *const names[] = {nullptr, EMU_CLASS_LIST(EMU_NAME)};
#undef EMU_NAME
#define EMU_USUAL(name, text, usual, ...) usual,
static const int usual[] = {0, EMU_CLASS_LIST(EMU_USUAL)};
#undef EMU_USUAL

/* class:n[:error[:late]] */
static void
read_words(const char *words)
{
	char name[16], rest[16] = "";
	unsigned n;
	int error = 0, got = sscanf(words, "%15[a-z]:%u:%d:%15s", name, &n, &error, rest);

	for (uint32_t c = 1; c < EMU_CLASSES; c++)
		if (got >= 2 && strcmp(name, names[c]) == 0) {
			own.what = c;
			own.nth = n;
			own.error = got >= 3 ? error : usual[c];
			own.late = strcmp(rest, "late") == 0;
		}
	if (own.what == EMU_NOTHING || (got == 4 && !own.late))
		emu_die("EMU_FAIL=%s", words);
}

/* Before a sandbox closes the folder. */
__attribute__((constructor)) static void
begin(void)
{
	const char *words = getenv("EMU_FAIL"), *path = getenv("EMU_FAIL_PAGE");
	int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
	void *at;

	if (words != nullptr)
		read_words(words);
	if (path == nullptr)
		return;
	at = mmap(nullptr, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || at == MAP_FAILED)
		emu_die("EMU_FAIL_PAGE=%s", path);
	close(fd);
	page = (emu_fail_page *)at;
	if (page->gone)
		dead = cudaErrorNoDevice;
}

void
emu_fail_use(struct emu_fail_page *other)
{
	page = other;
}

cudaError_t
emu_fail(cudaError_t error)
{
	if (error != cudaSuccess)
		last_error = error;
	return error;
}

/* Errors of one call alone; all others end what the process had on the device. */
static bool
passes(cudaError_t error)
{
	return error == cudaSuccess || error == cudaErrorMemoryAllocation ||
	       error == cudaErrorNotSupported ||
	       (error >= cudaErrorStreamCaptureUnsupported &&
		   error <= cudaErrorStreamCaptureWrongThread) ||
	       error == cudaErrorInvalidValue || error == cudaErrorInvalidConfiguration ||
	       error == cudaErrorInvalidDevice || error == cudaErrorLaunchOutOfResources;
}

struct walk {
	uint32_t hash;
	int frames;
};

static _Unwind_Reason_Code
add_frame(struct _Unwind_Context *context, void *data)
{
	walk *w = (walk *)data;
	uintptr_t at = _Unwind_GetIP(context) - (uintptr_t)&emu_fail_use;

	w->hash = (w->hash ^ (uint32_t)at) * 16777619u;
	return ++w->frames < FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void
note(emu_class c)
{
	walk w = {2166136261u, 0};

	if (page->noted == EMU_NOTED)
		return;
	_Unwind_Backtrace(add_frame, &w);
	page->call[page->noted].what = c;
	page->call[page->noted++].site = w.hash;
}

/* Counts the call. Whether it is the one that fails. */
static bool
is_the_one(emu_class c, const char *name)
{
	if (page->note)
		note(c);
	if (page->what != c || (page->only[0] != '\0' && strcmp(page->only, name) != 0))
		return false;
	page->calls++;
	if (page->calls != page->nth && !(page->every && page->calls > page->nth))
		return false;
	strncpy(page->name, name, sizeof(page->name) - 1);
	page->fired++;
	if (page == &own)
		fprintf(stderr, "EMU_FAIL: %s\n", names[c]);
	return true;
}

/* Work that the device does later, or only seems to. */
static bool
is_work(emu_class c)
{
	return c == EMU_LAUNCH || c == EMU_COPY || c == EMU_SET || c == EMU_GEMM || c == EMU_GRAPH;
}

bool
emu_refuses(emu_class c, const char *name, cudaError_t *error)
{
	std::lock_guard<std::mutex> guard(lock);

	if (dying != cudaSuccess && (c == EMU_SYNC || c == EMU_FREE)) {
		dead = dying;
		dying = cudaSuccess;
	}
	*error = dead;
	if (dead != cudaSuccess)
		return (void)emu_fail(dead), true;
	if (!is_the_one(c, name))
		return dying != cudaSuccess && is_work(c);
	*error = (cudaError_t)page->error;
	if (page->late && is_work(c)) {
		dying = *error;
		*error = cudaSuccess;
	} else if (c != EMU_BLAS && c != EMU_GEMM) {
		dead = passes(*error) ? cudaSuccess : *error;
		(void)emu_fail(*error);
	}
	return true;
}

bool
emu_blas_refuses(emu_class c, const char *name, cublasStatus_t *status)
{
	cudaError_t error;
	bool refuses = emu_refuses(c, name, &error);

	/* Of the page it is a status already. */
	*status = dead != cudaSuccess ? CUBLAS_STATUS_EXECUTION_FAILED : (cublasStatus_t)error;
	return refuses;
}

cudaError_t
cudaGetLastError(void)
{
	cudaError_t error;

	if (emu_refuses(EMU_ERROR, "cudaGetLastError", &error))
		return error;
	error = last_error;
	last_error = cudaSuccess;
	return error;
}
