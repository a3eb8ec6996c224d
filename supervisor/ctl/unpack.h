/*
 * Unpacks the adapter of a sampling archive: the regular files below adapter/, nothing else, never
 * outside the folder.
 */
#ifndef SUPERVISOR_CTL_UNPACK_H
#define SUPERVISOR_CTL_UNPACK_H

/* archive: a gzip tar as artifacts:save writes it. Its adapter/ becomes folder/adapter, replacing
   the files of the same names. 0, or -1 after a line on stderr. */
int unpack_adapter(const char *archive, const char *folder);

#endif
