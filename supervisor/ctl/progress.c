#include "supervisor/ctl/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "ipc/monotonic.h"

void
progress_start(struct progress *p, size_t total)
{
	*p = (struct progress){
	    .terminal = isatty(STDERR_FILENO), .total = total, .started = monotonic_seconds()};
}

double
progress_tokens_per_second(const struct progress *p)
{
	double seconds = monotonic_seconds() - p->started;

	return seconds > 0 ? (double)p->tokens / seconds : 0;
}

static void
draw_bar(const struct progress *p)
{
	char bar[25];
	size_t full = p->total == 0 ? 24 : 24 * p->done / p->total;

	for (size_t i = 0; i < 24; i++)
		bar[i] = i < full ? '=' : i == full ? '>' : ' ';
	bar[24] = '\0';
	fprintf(stderr, "\r[%s] ", bar);
}

void
progress_step(struct progress *p, uint64_t step, double loss, uint64_t tokens)
{
	double left;
	unsigned long seconds;

	p->done++;
	p->tokens += tokens;
	left = (monotonic_seconds() - p->started) / (double)p->done *
	       (double)(p->total - (p->done < p->total ? p->done : p->total));
	seconds = (unsigned long)(left + 0.5);
	if (p->terminal)
		draw_bar(p);
	fprintf(stderr, "step %llu  %zu/%zu  loss %.4f  %.0f tokens/s  %lu:%02lu left%s",
	    (unsigned long long)step, p->done, p->total, loss, progress_tokens_per_second(p),
	    seconds / 60, seconds % 60, p->terminal ? "   " : "\n");
	fflush(stderr);
}

void
progress_end(struct progress *p)
{
	if (p->terminal && p->done > 0)
		fputc('\n', stderr);
}
