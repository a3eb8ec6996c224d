#include "ipc/tar.h"

#include <stddef.h>

unsigned
tar_checksum(const struct tar_header *h)
{
	const unsigned char *p = (const unsigned char *)h;
	size_t at = offsetof(struct tar_header, checksum);
	unsigned sum = 8 * ' ';

	for (size_t i = 0; i < sizeof(*h); i++)
		sum += i >= at && i < at + 8 ? 0 : p[i];
	return sum;
}
