/*
 * STEPD_TLS_CERT=auto: a self-signed certificate for this machine, tls-cert.pem with tls-key.pem in
 * the state folder, so that https works on one machine without a certificate authority. Clients are
 * given tls-cert.pem to trust.
 */
#ifndef SUPERVISOR_HTTP_SELFSIGN_H
#define SUPERVISOR_HTTP_SELFSIGN_H

#define SELFSIGN_CERT "tls-cert.pem"
#define SELFSIGN_KEY "tls-key.pem"

/* Makes both files in the folder unless they are there and good for 30 more days. 0 or -errno. */
int selfsign_prepare(int folder_fd);

#endif
