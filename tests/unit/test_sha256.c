/* SHA-256 against FIPS 180-4's examples and, for every length around a block, libsodium's own. */
#include "ipc/sha256.h"

#include "tests/unit/test.h"

static void
hex_of(const void *data, size_t len, size_t piece, char hex[65])
{
	struct sha256 s;

	sha256_init(&s);
	for (size_t i = 0; i < len; i += piece)
		sha256_update(&s, (const char *)data + i, len - i < piece ? len - i : piece);
	sha256_final_hex(&s, hex);
}

TEST(examples)
{
	static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	char hex[65];

	hex_of("abc", 3, 3, hex);
	CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	hex_of("", 0, 1, hex);
	CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	hex_of(two_blocks, sizeof(two_blocks) - 1, 5, hex);
	CHECK_STR(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(every_length)
{
	unsigned char data[300], digest[32];
	char hex[65], want[65];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 7 + 3);
	for (size_t len = 0; len <= sizeof(data); len++) {
		crypto_hash_sha256(digest, data, len);
		sodium_bin2hex(want, sizeof(want), digest, sizeof(digest));
		for (size_t piece = 1; piece < 140; piece += 23) {
			hex_of(data, len, piece, hex);
			CHECK_MSG(
			    strcmp(hex, want) == 0, "length %zu in pieces of %zu", len, piece);
		}
	}
}

TEST_MAIN(TEST_CASE(examples), TEST_CASE(every_length))
