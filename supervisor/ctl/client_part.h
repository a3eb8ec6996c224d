/*
 * What the files of the client (client.h) share: the handle and how a transfer is begun.
 */
#ifndef SUPERVISOR_CTL_CLIENT_PART_H
#define SUPERVISOR_CTL_CLIENT_PART_H

#include <curl/curl.h>
#include <stdbool.h>

#include "supervisor/ctl/client.h"
#include "supervisor/ctl/patience.h"

struct client {
	CURL *curl;
	char *url, *ca;
	char *token; /* the header line with it; wiped when freed */
	char error[CURL_ERROR_SIZE];
	CURLcode options; /* the first that was not taken */
	bool answered;	  /* the service was there once: its URL and token are right */
	struct patience patience;
	char run[33];  /* random: what this client's keys begin with */
	unsigned keys; /* made so far */
};

/* An option of the next transfer, which is not begun unless all of them are taken. */
#define SET(c, option, value)                                                                      \
	((c)->options = (c)->options != CURLE_OK ? (c)->options                                    \
						 : curl_easy_setopt((c)->curl, option, value))

/* Forgets the last transfer's options and sets those of every one. */
void client_prepare(struct client *c, const char *url);
CURLcode client_perform(struct client *c);
/* curl's word on a failure on stderr, without the URL that some of its messages hold:
   CTL_UNREACHABLE. */
int client_unreachable(const char *doing, CURLcode code);
/* Whether this failure may be gone when the same is tried again. */
bool client_may_pass(CURLcode code);

#endif
