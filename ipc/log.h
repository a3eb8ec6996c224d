/*
 * The log of both programs: one line per event on stderr, `<level> <program>: <text>`, levels as
 * syslog numbers them so that journald sorts them. Programs log; libraries return errors. No line
 * ever holds a token, a signed URL or training text: callers pass none.
 */
#ifndef IPC_LOG_H
#define IPC_LOG_H

enum log_level {
	LOG_ERROR_LEVEL = 3,
	LOG_WARNING_LEVEL = 4,
	LOG_INFO_LEVEL = 6,
	LOG_DEBUG_LEVEL = 7
};

/* program: a constant that names the process; lines above `level` are dropped. Where stderr is a
   journal stream, lines start with <level>. */
void log_open(const char *program, enum log_level level);
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
