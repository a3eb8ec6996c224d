/* Any bytes as the body of every call: a request, or faults that are JSON within their bounds. */
#include <stdint.h>
#include <stdlib.h>

#include "ipc/request_body.h"
#include "ipc/request_render.h"
#include "supervisor/api/request_open.h"
#include "supervisor/api/request_save.h"
#include "supervisor/api/request_sign.h"
#include "supervisor/api/request_train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_answer(struct faults *f, int rc)
{
	struct json_doc *doc;
	size_t len;
	char *detail = faults_detail(f, &len);

	if (detail == NULL || len > FAULTS_SIZE_MAX || faults_any(f) != (rc != 0) ||
	    json_parse(&doc, detail, len, NULL) != 0)
		abort();
	json_free(doc);
	free(detail);
	faults_fini(f);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct request_open open;
	static struct request_save save;
	struct request_generate generate;
	struct request_render render;
	struct request_train train;
	struct request_sign sign;
	struct json_doc *doc;
	struct faults f;
	int rc;

	faults_init(&f);
	rc = request_body_parse(&doc, true, data, size, &f);
	check_answer(&f, rc);
	if (rc != 0)
		return 0;
	request_open_defaults(&open);
	check_answer(&f, request_open_parse(doc, &open, &f));
	check_answer(&f, request_save_parse(doc, &save, &f));
	check_answer(&f, request_sign_parse(doc, &sign, &f));
	check_answer(&f, request_train_parse(doc, &train, &f));
	check_answer(&f, request_render_parse(doc, &render, &f));
	check_answer(&f, request_generate_parse(doc, &generate, &f));
	json_free(doc);
	return 0;
}
