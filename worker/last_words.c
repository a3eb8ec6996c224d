#include "worker/last_words.h"

#include "ipc/channel.h"
#include "ipc/message.h"

void
last_words_say(struct channel *channel, const char *class, const char *text)
{
	uint8_t storage[1024];
	struct wire_put w;

	wire_put_init(&w, storage, sizeof(storage));
	message_put_last_words(&w, &(struct message_last_words){class, text});
	channel_send(channel, MSG_LAST_WORDS, 0, storage, w.len, -1);
}
