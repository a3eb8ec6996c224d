#include "worker/tokenizer/gguf_pre.h"

#include <string.h>

#define NONE "null"
#define NFC "{\"type\":\"NFC\"}"

#define BYTE_LEVEL(regex)                                                                          \
	"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_"          \
	"regex\":" #regex "}"
#define SPLIT(pattern)                                                                             \
	"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern                                    \
	"\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define DIGITS "{\"type\":\"Digits\",\"individual_digits\":true}"
#define SEQUENCE(steps) "{\"type\":\"Sequence\",\"pretokenizers\":[" steps "]}"

/* Backslashes are doubled once for C and once for JSON. */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define SIGNS "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*"
#define CASED "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"

#define GPT2 BYTE_LEVEL(true)
#define GPT2_DIGITS SEQUENCE(DIGITS "," BYTE_LEVEL(true))
#define WITH(pattern) SEQUENCE(SPLIT(pattern) "," BYTE_LEVEL(false))
#define LLAMA3                                                                                     \
	WITH(CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}" SIGNS REST)
#define QWEN2 WITH(CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}" SIGNS REST)
#define QWEN35                                                                                     \
	WITH(CONTRACTIONS "|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}"            \
			  "| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*" REST)
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define TEKKEN                                                                                     \
	WITH(CASED "*" LOWER "+|" CASED "+" LOWER                                                  \
		   "*|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*" REST)
#define GPT4O                                                                                      \
	WITH(CASED "*" LOWER "+" CONTRACTIONS "?|" CASED "+" LOWER "*" CONTRACTIONS                \
		   "?|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*" REST)
#define DEEPSEEK3                                                                                  \
	SEQUENCE(SPLIT("\\\\p{N}{1,3}") "," SPLIT("[一-龥぀-ゟ゠-ヿ]+") "," SPLIT(           \
	    "[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+"                    \
	    "|[^\\\\r\\\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+"                           \
	    "| ?[\\\\p{P}\\\\p{S}]+[\\\\r\\\\n]*" REST) "," BYTE_LEVEL(false))

static const struct gguf_pre table[] = {
    {"gpt-2", NONE, GPT2, false},
    {"gpt2", NONE, GPT2, false},
    {"phi-2", NONE, GPT2, false},
    {"smollm", NONE, GPT2_DIGITS, false},
    {"starcoder", NONE, GPT2_DIGITS, false},
    {"refact", NONE, GPT2_DIGITS, false},
    {"llama-bpe", NONE, LLAMA3, true},
    {"llama3", NONE, LLAMA3, true},
    {"llama-v3", NONE, LLAMA3, true},
    {"smaug-bpe", NONE, LLAMA3, true},
    {"dbrx", NONE, LLAMA3, false},
    {"qwen2", NFC, QWEN2, false},
    {"deepseek-r1-qwen", NFC, QWEN2, false},
    {"qwen35", NFC, QWEN35, false},
    {"tekken", NONE, TEKKEN, true},
    {"gpt-4o", NONE, GPT4O, false},
    {"deepseek-v3", NONE, DEEPSEEK3, false},
};

const struct gguf_pre *
gguf_pre_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
			return &table[i];
	return NULL;
}
