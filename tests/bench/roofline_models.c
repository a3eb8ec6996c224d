#include "tests/bench/roofline_models.h"

#include <string.h>

/* As published in each model's config.json; Qwen3.5-4B's text model. */
static const struct roof_model models[] = {
    {"SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49152, true, 0, 0, 0, 0},
    {"Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128256, true, 0, 0, 0, 0},
    {"Llama-3.2-3B", 28, 3072, 24, 8, 128, 8192, 128256, true, 0, 0, 0, 0},
    {"Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256, false, 0, 0, 0, 0},
    {"Qwen3.5-4B", 32, 2560, 16, 4, 256, 9216, 248320, true, 4, 16, 32, 128},
    {"Llama-2-7B", 32, 4096, 32, 32, 128, 11008, 32000, false, 0, 0, 0, 0},
};

const struct roof_model *
roof_model_at(size_t index)
{
	return index < sizeof(models) / sizeof(*models) ? &models[index] : NULL;
}

const struct roof_model *
roof_model_find(const char *name)
{
	for (size_t i = 0; roof_model_at(i) != NULL; i++)
		if (strcmp(models[i].name, name) == 0)
			return &models[i];
	return NULL;
}
