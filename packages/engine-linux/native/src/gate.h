#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A gate: the server's sockets in a burrow's network namespace, and the BPF program that hands connections to the
 * outside to one of them. Functions that fail fill in the step and its errno. They never end the process, which is the
 * server.
 */
struct failure {
    const char *step;
    int error;
};

struct gate {
    int tcp, dns, link;
};

/* Always returns false, so that a function can end with it. */
bool failed(struct failure *failure, const char *step);

/* Call it in a thread of its own: the thread enters the namespace and stays there. */
bool enter_network(int netns, struct failure *failure);
/* Pre for the following functions except make_network and probe_steering: enter_network succeeded. */
bool open_gate(int netns, struct gate *gate, struct failure *failure);
/*
 * Ends the connections that lead out of the namespace, except those to the ends in the records `kept` (gate-ends.h).
 * Their programs see an ordinary error. `count` is how many.
 */
bool hang_up_outside(const unsigned char *kept, size_t kept_size, int *count, struct failure *failure);
/*
 * Holds the connections: nothing arrives through them until they are released, however much the server sends. So a
 * snapshot shows them at a single moment. Nothing is lost: TCP sends it again.
 */
bool hold_connections(struct failure *failure);
/* Also releases connections that a server held which has ended since. */
bool release_connections(struct failure *failure);
/*
 * Connects to the port at 127.0.0.1, or at ::1 when nothing listens there. The error is ECONNREFUSED when nothing
 * listens at either. The caller owns the connection, which does not block.
 */
bool connect_port(uint16_t port, int *connection, struct failure *failure);
/*
 * Makes a network namespace with nothing but a loopback interface, which lives as long as the descriptor. Call it in a
 * thread of its own, which stays there.
 */
bool make_network(int *network, struct failure *failure);
/* Listens at 127.0.0.1 of the namespace; 0 is any port. The caller owns the socket. */
bool listen_loopback(uint16_t port, int *listener, struct failure *failure);
/* The mark of a gate's sockets. Programs inside cannot set a mark, so a routing rule can tell the two apart. */
#define GATE_MARK 0x646f726du

/*
 * Attaches the program to the namespace: every new connection to an address that is not the burrow's own goes to
 * `listener`, as long as the link is open. Once the listener is closed, the kernel refuses such connections. Returns -1
 * on failure.
 */
int steer_connections(int netns, int listener, struct failure *failure);
/* Whether this kernel supports steering: loads the program without attaching it. */
bool probe_steering(struct failure *failure);
