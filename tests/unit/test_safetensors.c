/* Headers that are right, and every way in which one can lie. */
#include <errno.h>

#include "ipc/safetensors.h"

#include "tests/unit/craft.h"
#include "tests/unit/test.h"

static char why[300];

static int
open_crafted(const char *header, size_t data)
{
	static const unsigned char zeros[64];
	struct bytes b = craft_safetensors(header, zeros, data);
	struct safetensors *s;
	int err = safetensors_open(&s, b.data, b.len, why, sizeof(why));

	if (err != 0)
		CHECK(s == NULL);
	safetensors_free(s);
	bytes_free(&b);
	return err;
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define B "\"b\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[8,12]}"

TEST(good)
{
	static const char header[] =
	    "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\\u00e9\"}," B "," A "}   ";
	static const float data[] = {1.5f, -2.0f};
	struct bytes b = craft_safetensors(header, data, 8);
	struct safetensors *s;
	const struct safetensors_tensor *t;

	put(&b, "\x00\x3c\x00\x7c", 4); /* 1 and infinity in F16 */
	CHECK(safetensors_open(&s, b.data, b.len, why, sizeof(why)) == 0);
	CHECK(safetensors_count(s) == 2);
	CHECK_STR(safetensors_at(s, 0)->name, "a");
	CHECK(safetensors_at(s, 2) == NULL);
	CHECK(safetensors_find(s, "c") == NULL);
	t = safetensors_find(s, "b");
	CHECK(t->dtype == SAFETENSORS_F16 && t->dims == 2 && t->shape[0] == 2 && t->count == 2);
	CHECK(t->size == 4 && memcmp(t->data, "\x00\x3c", 2) == 0);
	CHECK(safetensors_first_nonfinite(t) == 1);
	t = safetensors_find(s, "a");
	CHECK(memcmp(t->data, data, 8) == 0 && safetensors_first_nonfinite(t) == 2);
	CHECK_STR(safetensors_metadata(s, "format"), "pt");
	CHECK_STR(safetensors_metadata(s, "x"), "\xc3\xa9");
	CHECK(safetensors_metadata(s, "y") == NULL);
	safetensors_free(s);
	bytes_free(&b);
}

TEST(small_shapes)
{
	CHECK(open_crafted("{}", 0) == 0);
	CHECK(open_crafted("{\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8) ==
	      0);
	CHECK(
	    open_crafted("{\"e\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[0,0]}," A "}",
		8) == 0);
	CHECK(open_crafted("{" A ",\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}}",
		  8) == 0);
}

/* The header, bytes of data behind it, and a word of the refusal. */
static const struct {
	const char *header;
	size_t data;
	const char *word;
} bad[] = {
    {"{" A "}", 7, "not inside"},
    {"{" A "}", 9, "belong to no tensor"},
    {"{" A "," B "}", 8, "not inside"},
    {"{}", 1, "names no tensor"},
    {"[1]", 0, "begin with {"},
    {" {" A "}", 8, "begin with {"},
    {"{" A, 8, "valid JSON"},
    {"{" A "," A "}", 8, "overlaps"},
    {"{" A ",\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12, "twice"},
    {"{\"a\":1}", 0, "no object"},
    {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "empty"},
    {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "control"},
    {"{\"a\\n\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "control"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "too many"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "F33"},
    {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no string"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "no list"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "no size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "no size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}}", 4, "no size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
	"dimensions"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
	"too large"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
	"shape and dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "shape and dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "shape and dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 8, "not inside"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 8, "not inside"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 8, "two integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,99999999999999999999]}}", 8,
	"two integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,9223372036854775807]}}", 8,
	"not inside"},
    {"{" A ",\"c\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, "overlaps"},
    {"{" A ",\"c\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[9,13]}}", 13, "hole"},
    {"{\"__metadata__\":[]," A "}", 8, "__metadata__ is no object"},
    {"{\"__metadata__\":{\"a\":1}," A "}", 8, "no string"},
    {"{\"__metadata__\":{\"a\":\"x\\u0000\"}," A "}", 8, "NUL"},
    {"{\"__metadata__\":{},\"__metadata__\":{}," A "}", 8, "two __metadata__"},
};

TEST(lies)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int err = open_crafted(bad[i].header, bad[i].data);

		CHECK_MSG(err == -EBADMSG && strstr(why, bad[i].word) != NULL, "%s: %d \"%s\"",
		    bad[i].header, err, err != 0 ? why : "");
	}
}

TEST(lengths)
{
	struct bytes b = craft_safetensors("{" A "}", "\0\0\0\0\0\0\0", 8);
	uint64_t claims[] = {0, b.len, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 40};
	struct safetensors *s;

	for (size_t i = 0; i < b.len; i++) { /* cut at every byte */
		CHECK(safetensors_open(&s, b.data, i, why, sizeof(why)) == -EBADMSG);
		CHECK(s == NULL);
	}
	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		memcpy(b.data, &claims[i], 8);
		CHECK(safetensors_open(&s, b.data, b.len, why, sizeof(why)) == -EBADMSG);
	}
	bytes_free(&b);
}

TEST(nonfinite)
{
	static const struct {
		enum safetensors_dtype dtype;
		uint64_t bits;
		bool finite;
	} cases[] = {{SAFETENSORS_F32, 0x7f7fffff, true}, {SAFETENSORS_F32, 0x7f800000, false},
	    {SAFETENSORS_F32, 0xffc00000, false}, {SAFETENSORS_F16, 0x7bff, true},
	    {SAFETENSORS_F16, 0xfc00, false}, {SAFETENSORS_BF16, 0x7f7f, true},
	    {SAFETENSORS_BF16, 0x7fc0, false}, {SAFETENSORS_F64, 0x7fefffffffffffff, true},
	    {SAFETENSORS_F64, 0x7ff0000000000001, false}, {SAFETENSORS_I32, 0x7f800000, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned char data[1 + 8 * 3] = {0};
		size_t size = safetensors_dtype_size(cases[i].dtype);
		struct safetensors_tensor t = {
		    .dtype = cases[i].dtype, .count = 3, .data = data + 1};

		memcpy(data + 1 + 2 * size, &cases[i].bits, size);
		CHECK_MSG(safetensors_first_nonfinite(&t) == (cases[i].finite ? 3u : 2u), "%s %llx",
		    safetensors_dtype_name(cases[i].dtype), (unsigned long long)cases[i].bits);
	}
}

TEST_MAIN(TEST_CASE(good), TEST_CASE(small_shapes), TEST_CASE(lies), TEST_CASE(lengths),
    TEST_CASE(nonfinite))
