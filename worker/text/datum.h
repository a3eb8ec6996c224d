/*
 * A datum: one rendered example as training sees it, tokens and which of them are supervised.
 */
#ifndef WORKER_TEXT_DATUM_H
#define WORKER_TEXT_DATUM_H

#include <stdint.h>

struct datum {
	char id[65];	 /* 64 hex digits */
	uint32_t length; /* tokens */
	int32_t *ids;	 /* (length) */
	uint8_t *
	    supervised; /* (length) 1 = its log p is in the loss, predicted from the token before */
	uint32_t
	    supervised_count; /* ones in supervised, also at position 0, which has no predictor */
};

#endif
