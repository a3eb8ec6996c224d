#include "worker/artifact/sampling_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "ipc/sha256.h"

static void
write_facts(struct json_writer *w, const struct sampling *s, const char *weights_sha256)
{
	const struct artifact_identity *id = &s->identity;

	json_write_object(w);
	json_put_string(w, "base_model", id->base_model);
	json_put_text(w, "model_revision", id->model_revision);
	json_put_string(w, "base_sha256", id->base_sha256);
	json_put_string(w, "adapter_sha256", weights_sha256);
	json_put_uint(w, "lora_rank", id->rank);
	json_put_double(w, "lora_alpha", id->alpha);
	json_put_double(w, "lora_dropout", id->dropout);
	json_put_uint(w, "seed", id->seed);
	json_put_uint(w, "step", s->step);
	json_put_double(w, "loss", s->loss);
	json_put_string(w, "build", id->build);
	json_write_object_end(w);
}

/* Where a text a client chose stands in YAML or Markdown, it stands as a JSON string: one line,
   quoted, without control characters. */
static char *
card(const char *base, const char *facts, const char *digest, size_t *len)
{
	char *text;
	int n = asprintf(&text,
	    "---\n"
	    "base_model: %s\n"
	    "library_name: peft\n"
	    "pipeline_tag: text-generation\n"
	    "tags:\n"
	    "- lora\n"
	    "---\n"
	    "\n"
	    "# LoRA adapter\n"
	    "\n"
	    "Trained by stepd. To load it, with this folder as `adapter`:\n"
	    "\n"
	    "```python\n"
	    "from peft import PeftModel\n"
	    "from transformers import AutoModelForCausalLM\n"
	    "\n"
	    "base = AutoModelForCausalLM.from_pretrained(%s)  # or the folder where it lies\n"
	    "model = PeftModel.from_pretrained(base, \"adapter\")\n"
	    "```\n"
	    "\n"
	    "## Record\n"
	    "\n"
	    "```json\n"
	    "%s\n"
	    "```\n"
	    "\n"
	    "Evidence digest (SHA-256 of the record's line): `%s`\n",
	    base, base, facts, digest);

	if (n < 0)
		return NULL;
	*len = (size_t)n;
	return text;
}

char *
sampling_card(const struct sampling *s, const char *weights_sha256, size_t *len)
{
	struct json_writer facts, base;
	struct sha256 hash;
	const char *facts_text, *base_text;
	char digest[65], *text = NULL;
	size_t facts_len;

	json_writer_init(&facts);
	json_writer_init(&base);
	write_facts(&facts, s, weights_sha256);
	json_write_string(&base, s->identity.base_model);
	facts_text = json_writer_text(&facts, &facts_len);
	base_text = json_writer_text(&base, NULL);
	if (facts_text != NULL && base_text != NULL) {
		sha256_init(&hash);
		sha256_update(&hash, facts_text, facts_len);
		sha256_final_hex(&hash, digest);
		text = card(base_text, facts_text, digest, len);
	}
	json_writer_fini(&facts);
	json_writer_fini(&base);
	return text;
}

void
sampling_tokenizer_config(struct json_writer *w, const struct model_files *files)
{
	size_t positions = model_files_config(files)->positions, len;
	const char *template = model_files_chat_template(files, &len), *text;

	json_write_object(w);
	json_put_string(w, "tokenizer_class", "PreTrainedTokenizerFast");
	json_put_bool(w, "clean_up_tokenization_spaces", false);
	if (positions != 0)
		json_put_uint(w, "model_max_length", positions);
	json_foreach (token, model_files_special_tokens(files)) {
		size_t token_len;

		text = json_string(token, &token_len);
		if (text == NULL)
			continue;
		json_write_key(w, json_key(token, NULL));
		json_write_string_n(w, text, token_len);
	}
	if (template != NULL) {
		json_write_key(w, "chat_template");
		json_write_string_n(w, template, len);
	}
	json_write_object_end(w);
}
