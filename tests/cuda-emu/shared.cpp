/*
 * Where the static __shared__ arrays of the program lie: the section .emu_shared. Its name has a
 * dot, so the linker makes no symbols for its ends: they are read from the program's own file.
 */
#include "emu.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int
first_base(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	*(uintptr_t *)base = info->dlpi_addr; /* the program itself comes first */
	return 1;
}

/* Before the program begins: later it may be in a sandbox without its own file. */
__attribute__((constructor)) static void
find_early(void)
{
	char *from, *to;

	emu_shared_section(&from, &to);
}

void
emu_shared_section(char **from, char **to)
{
	static char *begin, *end;
	static bool known;
	uintptr_t base = 0;
	struct stat file;
	int fd = -1;
	char *image;

	*from = begin;
	*to = end;
	if (known)
		return;
	known = true;
	dl_iterate_phdr(first_base, &base);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &file) != 0)
		emu_die("cannot read the program's own file");
	image = (char *)mmap(nullptr, file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED)
		emu_die("cannot map the program's own file");
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
	const Elf64_Shdr *section = (const Elf64_Shdr *)(image + header->e_shoff);
	const char *names = image + section[header->e_shstrndx].sh_offset;

	for (int i = 0; i < header->e_shnum; i++)
		if (strcmp(names + section[i].sh_name, ".emu_shared") == 0) {
			begin = (char *)base + section[i].sh_addr;
			end = begin + section[i].sh_size;
		}
	munmap(image, file.st_size);
	close(fd);
	*from = begin;
	*to = end;
}
