/* What libevent takes from glibc since 2.36: for programs of a bundle, which run with an older one.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

void
arc4random_buf(void *out, size_t size)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = getrandom((char *)out + at, size - at, 0);

		if (n < 0 && errno != EINTR)
			abort();
		at += n > 0 ? (size_t)n : 0;
	}
}

uint32_t
arc4random(void)
{
	uint32_t value;

	arc4random_buf(&value, sizeof(value));
	return value;
}
