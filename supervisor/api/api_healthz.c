#include "ipc/json_write.h"
#include "supervisor/api/api_body.h"
#include "supervisor/api/routes.h"

void
api_healthz(struct stepd *s, struct http_request *r)
{
	struct json_writer w;
	const char *text;
	size_t len;

	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "status", "ok");
	json_put_bool(&w, "cuda_available", s->health.cuda_available);
	json_put_bool(&w, "cuda_verified", s->health.cuda_verified);
	json_put_bool(&w, "active_session", s->health.active_session);
	json_write_object_end(&w);
	text = json_writer_text(&w, &len);
	if (text == NULL)
		http_reply_detail(r, 503, api_no_memory);
	else
		http_reply_json(r, 200, text, len);
	json_writer_fini(&w);
}
