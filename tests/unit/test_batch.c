#include "worker/train/batch.h"

#include "tests/unit/test.h"

static struct datum
datum(int32_t *ids, uint8_t *supervised, uint32_t length)
{
	struct datum d = {.length = length, .ids = ids, .supervised = supervised};

	for (uint32_t i = 0; i < length; i++)
		d.supervised_count += supervised[i];
	return d;
}

TEST(counts)
{
	const struct datum tail = datum((int32_t[]){5, 6, 7, 8}, (uint8_t[]){0, 0, 1, 1}, 4);
	const struct datum first = datum((int32_t[]){5, 6, 7}, (uint8_t[]){1, 0, 0}, 3);
	const struct datum none = datum((int32_t[]){5, 6}, (uint8_t[]){0, 0}, 2);
	const struct datum all = datum((int32_t[]){5, 6, 7}, (uint8_t[]){1, 1, 1}, 3);
	const struct datum hole = datum((int32_t[]){5, 6, 7, 8, 9}, (uint8_t[]){0, 1, 0, 1, 0}, 5);

	CHECK(batch_datum_tokens(&tail) == 3 && batch_datum_rows(&tail) == 2);
	CHECK(batch_datum_tokens(&first) == 0 && batch_datum_rows(&first) == 0);
	CHECK(batch_datum_tokens(&none) == 0 && batch_datum_rows(&none) == 0);
	CHECK(batch_datum_tokens(&all) == 2 && batch_datum_rows(&all) == 2);
	CHECK(batch_datum_tokens(&hole) == 3 && batch_datum_rows(&hole) == 2);
}

/* Two sequences with one between them that has nothing to learn. */
TEST(packing)
{
	const struct datum one = datum((int32_t[]){5, 6, 7, 8}, (uint8_t[]){0, 0, 1, 1}, 4);
	const struct datum nothing = datum((int32_t[]){3}, (uint8_t[]){1}, 1);
	const struct datum two = datum((int32_t[]){11, 12, 13, 14}, (uint8_t[]){1, 1, 0, 1}, 4);
	static const int32_t ids[] = {5, 6, 7, 11, 12, 13}, position[] = {0, 1, 2, 0, 1, 2};
	static const int32_t rows[] = {1, 2, 3, 5}, targets[] = {7, 8, 12, 14};
	struct batch b = {0};
	struct refusal r;

	CHECK(batch_begin(&b, 6, 4, 3, &r) == 0);
	batch_add(&b, &one, 0.5f);
	batch_add(&b, &nothing, 0.5f);
	batch_add(&b, &two, 0.25f);
	CHECK(b.tokens == 6 && b.row_count == 4 && b.sequences == 2);
	CHECK(memcmp(b.ids, ids, sizeof(ids)) == 0);
	CHECK(memcmp(b.position, position, sizeof(position)) == 0);
	CHECK(memcmp(b.rows, rows, sizeof(rows)) == 0);
	CHECK(memcmp(b.targets, targets, sizeof(targets)) == 0);
	CHECK(b.start[0] == 0 && b.start[1] == 3 && b.start[2] == 6);
	CHECK(b.coefficient[1] == 0.5f && b.coefficient[2] == 0.25f);
	CHECK(batch_begin(&b, 2, 1, 1, &r) == 0);
	CHECK(b.tokens == 0 && b.row_count == 0 && b.sequences == 0);
	CHECK(batch_begin(&b, (size_t)1 << 31, 1, 1, &r) == -1 && r.status == 422);
	batch_fini(&b);
}

TEST_MAIN(TEST_CASE(counts), TEST_CASE(packing))
