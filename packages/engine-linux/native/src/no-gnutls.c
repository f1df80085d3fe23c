/*
 * A libgnutls.so.30 for CRIU, which links it for page servers that speak TLS. Dormouse uses none, but loading GnuTLS and
 * the libraries behind it took most of the CPU time of every start of CRIU. A function that CRIU calls after all is
 * missing here, and ends it.
 */
#include <stdlib.h>

/* CRIU has a copy of this variable, so it is needed when CRIU starts. */
void (*gnutls_free)(void *) = free;
