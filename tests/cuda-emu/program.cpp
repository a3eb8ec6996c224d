/*
 * The program's own file: where a section lies, and which function begins at an address. Names of
 * sections may have a dot, and kernels of a template are in the table of all symbols only, so
 * neither the linker nor dladdr tells.
 */
#include "emu.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct program {
	const char *image;
	size_t size;
	uintptr_t base; /* where it was loaded */
	const Elf64_Shdr *section;
	int sections;
};

static int
first_base(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	*(uintptr_t *)base = info->dlpi_addr; /* the program itself comes first */
	return 1;
}

static program
program_open(void)
{
	program p = {};
	struct stat file;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	dl_iterate_phdr(first_base, &p.base);
	if (fd < 0 || fstat(fd, &file) != 0)
		emu_die("cannot read the program's own file");
	p.size = (size_t)file.st_size;
	p.image = (const char *)mmap(nullptr, p.size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p.image == MAP_FAILED)
		emu_die("cannot map the program's own file");
	close(fd);
	p.section = (const Elf64_Shdr *)(p.image + ((const Elf64_Ehdr *)p.image)->e_shoff);
	p.sections = ((const Elf64_Ehdr *)p.image)->e_shnum;
	return p;
}

static void
program_close(program *p)
{
	munmap((void *)p->image, p->size);
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

	if (!known) {
		program p = program_open();
		const Elf64_Ehdr *header = (const Elf64_Ehdr *)p.image;
		const char *names = p.image + p.section[header->e_shstrndx].sh_offset;

		for (int i = 0; i < p.sections; i++)
			if (strcmp(names + p.section[i].sh_name, ".emu_shared") == 0) {
				begin = (char *)p.base + p.section[i].sh_addr;
				end = begin + p.section[i].sh_size;
			}
		program_close(&p);
	}
	known = true;
	*from = begin;
	*to = end;
}

/* `kernel<types>`, without result, parameters and blanks. */
static std::string
plain_name(const char *symbol)
{
	int status;
	char *text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
	std::string name, all = status == 0 ? text : symbol;

	free(text);
	if (all.compare(0, 5, "void ") == 0)
		all.erase(0, 5);
	for (char c : all.substr(0, all.find('(')))
		if (c != ' ')
			name += c;
	return name;
}

std::string
emu_function_name(const void *function)
{
	program p = program_open();
	std::string name;

	for (int i = 0; i < p.sections && name.empty(); i++) {
		const Elf64_Shdr *table = &p.section[i];
		const Elf64_Sym *symbol = (const Elf64_Sym *)(p.image + table->sh_offset);
		size_t count = table->sh_type == SHT_SYMTAB ? table->sh_size / sizeof(*symbol) : 0;
		const char *names = p.image + p.section[table->sh_link].sh_offset;

		for (size_t s = 0; s < count && name.empty(); s++)
			if (ELF64_ST_TYPE(symbol[s].st_info) == STT_FUNC &&
			    p.base + symbol[s].st_value == (uintptr_t)function)
				name = plain_name(names + symbol[s].st_name);
	}
	program_close(&p);
	return name;
}
