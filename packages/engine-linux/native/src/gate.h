#pragma once

#include <stdbool.h>

/*
 * A gate: the server's sockets in a burrow's network namespace, and the program that hands all connections to the
 * outside to one of them. What fails says in which step and with which errno; nothing here ends the process, which is
 * the server's.
 */
struct failure {
    const char *step;
    int error;
};

struct gate {
    int tcp, dns, link;
};

/* Always false, so that a step can end with it. */
bool failed(struct failure *failure, const char *step);

/* For a thread that does nothing else: it goes into a burrow's namespace and never comes back. */
bool enter_network(int netns, struct failure *failure);
/* All of the following, but for probe_steering: pre: entered. */
bool open_gate(int netns, struct gate *gate, struct failure *failure);
/*
 * Ends the connections that lead out of the namespace; their owners see an ordinary error. `count` says how many it
 * were.
 */
bool hang_up_outside(int *count, struct failure *failure);
/*
 * Keeps the connections as they are: nothing comes in through them until they are let go, however much the server sends
 * or reads. A snapshot of them is then one of a single moment. Nothing is lost: the kernel sends it again.
 */
bool hold_connections(struct failure *failure);
/* Also for those that somebody held who is no more. */
bool release_connections(struct failure *failure);
/*
 * What the sockets of a gate are marked with, so that a rule can tell them from those inside, which cannot set a mark.
 */
#define GATE_MARK 0x646f726du

/*
 * Attaches the program to the namespace: each new connection that is not to an address of the burrow's own goes to
 * `listener`. As long as the link is open; once the listener is closed such connections are refused. -1 is a failure.
 */
int steer_connections(int netns, int listener, struct failure *failure);
/* Can this kernel do it at all? Loads what it takes and attaches it to nothing. */
bool probe_steering(struct failure *failure);
