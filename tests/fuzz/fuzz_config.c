/*
 * Any bytes as config.json, or as the metadata of a GGUF file: refused, or a configuration whose
 * parts fit each other.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker/files/tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(struct model_config *c)
{
	struct model_tensor *tensors;
	struct refusal r;
	size_t count;

	if (c->heads == 0 || c->kv_heads == 0 || c->heads % c->kv_heads != 0 ||
	    c->rope.half * 2 > c->head_dim || c->layers == NULL || c->prefix == NULL)
		abort();
	if (c->layer_count < 200 && model_tensors(&tensors, &count, c, &r) == 0) {
		for (size_t i = 0; i < count; i++)
			if (tensors[i].rows == 0 || tensors[i].cols == 0)
				abort();
		free(tensors);
	}
	model_config_fini(c);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_config c;
	struct refusal r;

	if (size > 4 && memcmp(data, "GGUF", 4) == 0) {
		struct gguf *g;

		if (gguf_open(&g, data, size, "fuzz", &r) != 0)
			return 0;
		if (model_config_from_gguf(&c, g, &r) == 0)
			check(&c);
		gguf_free(g);
	} else {
		struct json_doc *doc;

		if (json_parse(&doc, data, size, NULL) != 0)
			return 0;
		if (model_config_from_json(&c, json_root(doc), &r) == 0)
			check(&c);
		json_free(doc);
	}
	return 0;
}
