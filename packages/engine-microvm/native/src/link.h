#ifndef DORMOUSE_LINK_H
#define DORMOUSE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The link: streams between the host and programs of the guest over one virtio-serial port. LINK.md describes it;
 * src/link is the host's end.
 */

enum frame_type {
    FRAME_HELLO = 1,
    FRAME_OPEN,
    FRAME_OPENED,
    FRAME_REFUSED,
    FRAME_DATA,
    FRAME_END,
    FRAME_RESET,
    FRAME_CREDIT,
    FRAME_CONTROL,
    FRAME_AGENT_ENDED,
};

#define HEADER_BYTES 8
#define FRAME_MAX_BYTES 32768
#define WINDOW_BYTES (256 * 1024)
#define STREAMS_MAX 256
#define BYTE_RESET 0x7e
#define BYTE_ESCAPE 0x7d
#define ESCAPE_XOR 0x20

/* Takes bytes from the port. Calls `link_frame` for every complete frame and `link_reset` for a new session. */
void link_receive(const unsigned char *bytes, size_t count);
/* Appends a frame to what waits for the port. */
void link_send(enum frame_type type, uint16_t stream, const void *payload, size_t length);
/* Begins a session: a reset byte, after everything that waited was dropped. */
void link_begin(void);
/* Writes what waits. Returns false when the port failed. */
bool link_flush(int port);
bool link_has_output(void);
/* Whether another frame of full size fits. Streams are read only while it does. */
bool link_has_room(void);

/* Provided by the relay. */
void link_frame(enum frame_type type, uint16_t stream, const unsigned char *payload, size_t length);
void link_reset(void);

#endif
