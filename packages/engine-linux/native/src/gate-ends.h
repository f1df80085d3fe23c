#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate.h"

/*
 * The server's ends of connections into a burrow, which move to the next burrow with it.
 *
 * A record describes one end; src/network/connection-end.ts reads and changes it. It is followed by `received_bytes`
 * that the server has not read, then by `unsent_bytes` that the program inside has not received. It never leaves this
 * process.
 */
struct end_record {
    uint32_t size; /* with the bytes that follow */
    uint32_t receive_seq, send_seq;
    uint32_t received_bytes, unsent_bytes;
    uint32_t flags, options, send_scale, receive_scale, mss;
    uint32_t receive_edge; /* the program inside may send up to this sequence number */
    uint32_t receive_buffer, send_buffer;
    uint32_t local_port, remote_port;
    uint32_t local[4], remote[4]; /* IPv4 as mapped IPv6 addresses, in network order */
    /* This side may send up to this sequence number. Last: guests that were saved earlier do not know it. */
    uint32_t send_edge;
};
#define RECEIVED_END 1u /* the other side will send nothing more */
#define SENT_END 2u     /* this side will send nothing more */

/* What stands in for an end while its sandbox sleeps: see park_end. */
struct parked_end {
    unsigned char *record; /* NULL: this end cannot be kept. The caller frees it. */
    int old;               /* the end itself, silent until it is closed or put back */
    int stand_in;          /* the other side of what has taken its place */
};

/*
 * Takes an end out of its connection: neither side notices. `fd` stays open, but is neither readable nor writable until
 * `put_end` gives it an end again. The event loop that polls `fd` does so with `epoll`. Record and `old` may use up to
 * `max_bytes`. Returns false and changes nothing when the end cannot be kept.
 */
bool park_end(int epoll, const uint32_t *events, int fd, uint32_t max_bytes, struct parked_end *parked);
/* Lets an end that was parked continue as it was. */
void revive_end(int old);
/* Replaces what `fd` refers to by `next`, which it closes. What happened to the stand-in happens to `next`. */
bool put_end(int epoll, const uint32_t *events, int fd, int next, int stand_in);
/* Whether closing the socket resets its connection, also when the process is killed. */
void reset_on_close(int fd, bool is_on);
/* The events that each descriptor below `count` is registered for in an epoll set; 0 for none. The caller frees it. */
uint32_t *read_events(int epoll, int count);

/* Pre: enter_network succeeded. Makes an end in repair mode, which is silent until `start_end`. Returns -1 on failure. */
int make_end(const struct end_record *record);
/* Pre: the other end exists. Sends what was not received yet. */
bool start_end(int fd, const struct end_record *record);
/* Returns the record behind `at` in a list of `size` bytes, or the first one for NULL; NULL at the end. */
const struct end_record *next_record(const unsigned char *records, size_t size, const struct end_record *at);
/* Whether a connection, seen from inside, leads to one of these ends. Addresses have one word (IPv4) or four. */
struct seen_inside {
    int family;
    const uint32_t *own, *other;
    uint16_t own_port, other_port; /* in host order */
};
bool has_record(const unsigned char *records, size_t size, const struct seen_inside *connection);
