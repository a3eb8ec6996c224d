#include "tests/bench/roofline_peer.h"

#include <string.h>

/* `count` kernels of the line's kind; false where it is not of its form. */
static bool
add_line(struct roof_walk *w, const char *line)
{
	double m, n, k, size, result, heads, bytes;
	size_t count;

	if (sscanf(line, "product\t%zu\t%lf\t%lf\t%lf\t%lf\t%lf", &count, &m, &n, &k, &size,
		&result) == 6) {
		while (count-- > 0)
			roof_product(w, ROOF_LINEAR, m, n, k, size, result);
		return true;
	}
	if (sscanf(line, "attention\t%zu\t%lf\t%lf\t%lf\t%lf\t%lf", &count, &m, &n, &k, &heads,
		&size) == 6) {
		while (count-- > 0)
			roof_op(w, ROOF_ATTENTION, 2 * m * (m + 1) * n,
			    size * m * (2 * n + 2 * k) + 4 * m * heads, w->rates->attention, 1);
		return true;
	}
	if (sscanf(line, "attention_backward\t%zu\t%lf\t%lf\t%lf\t%lf\t%lf", &count, &m, &n, &k,
		&heads, &size) == 6) {
		while (count-- > 0)
			roof_op(w, ROOF_ATTENTION_BACKWARD, 5 * m * (m + 1) * n,
			    size * m * (4 * n + 4 * k) + 8 * m * heads, w->rates->attention, 1);
		return true;
	}
	if (sscanf(line, "moves\t%zu\t%lf", &count, &bytes) == 2 && count > 0) {
		for (size_t i = 0; i < count; i++)
			roof_moves(w, ROOF_RESIDUAL, bytes / (double)count);
		return true;
	}
	return line[0] == '#';
}

int
roof_peer_read(struct roof_peer *p, FILE *f, const char *model, size_t tokens, bool recomputed,
    const struct roof_rates *rates)
{
	struct roof_step step = {0};
	struct roof_walk w = {.s = &step, .rates = rates};
	char line[256], name[32], layers[16];
	bool here = false, found = false;
	size_t length;
	double memory;

	memset(p, 0, sizeof(*p));
	rewind(f);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "step\t%31s\t%zu\t%15s\t%lf", name, &length, layers, &memory) ==
		    4) {
			here = strcmp(name, model) == 0 && length == tokens &&
			       (strcmp(layers, "recomputed") == 0) == recomputed;
			if (here)
				p->memory = memory;
			found = found || here;
		} else if (here && !add_line(&w, line)) {
			return -1;
		}
	}
	p->total = step.total;
	p->products = step.kind[ROOF_LINEAR];
	p->attention = step.kind[ROOF_ATTENTION];
	p->attention_backward = step.kind[ROOF_ATTENTION_BACKWARD];
	p->other = step.kind[ROOF_RESIDUAL];
	return found;
}
