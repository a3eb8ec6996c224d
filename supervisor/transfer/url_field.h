/* Fields of a request that are URLs of artifacts. */
#ifndef SUPERVISOR_TRANSFER_URL_FIELD_H
#define SUPERVISOR_TRANSFER_URL_FIELD_H

#include "ipc/fields.h"
#include "supervisor/transfer/url.h"

/* A field of a request that is an https URL, or a plain one (url.h), which the handler judges and
   may have to refuse by url_fault_plain. false, *out untouched, if absent or faulty. */
bool fields_url(struct fields *s, const char *key, enum need need, struct url *out);

/* Adds the fault of an http URL at that field of the body. */
void url_fault_plain(struct faults *f, const char *key);

#endif
