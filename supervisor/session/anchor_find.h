/* The anchors of an earlier stepd: which sessions have one, and which files are nobody's. */
#ifndef SUPERVISOR_SESSION_ANCHOR_FIND_H
#define SUPERVISOR_SESSION_ANCHOR_FIND_H

struct stepd;

/* At the start: gives sessions the anchors that the store tells, not opened, and removes the files
   of the spool that are nobody's. 0, or -errno of the store: the sessions are not what they seem.
 */
int anchor_find_all(struct stepd *stepd);

#endif
