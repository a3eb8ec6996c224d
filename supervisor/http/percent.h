/* Percent-encoding of URLs. */
#ifndef SUPERVISOR_HTTP_PERCENT_H
#define SUPERVISOR_HTTP_PERCENT_H

/* Decodes %XX in place ("+" stays). 0, or -EINVAL (a bad escape or %00), with text undefined. */
int percent_decode(char *text);

#endif
