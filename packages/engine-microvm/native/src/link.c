#include "link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Every byte may need two. */
#define OUTPUT_BYTES (16 * 2 * (FRAME_MAX_BYTES + HEADER_BYTES))

static unsigned char input[HEADER_BYTES + FRAME_MAX_BYTES];
static size_t input_used;
static bool is_escaped, is_lost = true;
static unsigned char output[OUTPUT_BYTES];
static size_t output_used;

static uint32_t read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void take(unsigned char byte)
{
    input[input_used++] = byte;
    if (input_used < HEADER_BYTES)
        return;
    uint32_t length = read_u32(input + 4);
    if (length > FRAME_MAX_BYTES) {
        /* Nothing after this can be understood before the host begins again. */
        is_lost = true;
        return;
    }
    if (input_used < HEADER_BYTES + length)
        return;
    uint16_t stream = (uint16_t)(input[2] << 8 | input[3]);
    input_used = 0;
    link_frame(input[0], stream, input + HEADER_BYTES, length);
}

void link_receive(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = bytes[i];
        if (byte == BYTE_RESET) {
            input_used = 0;
            is_escaped = is_lost = false;
            link_reset();
        } else if (is_lost) {
            continue;
        } else if (is_escaped) {
            is_escaped = false;
            take(byte ^ ESCAPE_XOR);
        } else if (byte == BYTE_ESCAPE) {
            is_escaped = true;
        } else {
            take(byte);
        }
    }
}

static void put(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == BYTE_RESET || bytes[i] == BYTE_ESCAPE) {
            output[output_used++] = BYTE_ESCAPE;
            output[output_used++] = bytes[i] ^ ESCAPE_XOR;
        } else {
            output[output_used++] = bytes[i];
        }
    }
}

void link_send(enum frame_type type, uint16_t stream, const void *payload, size_t length)
{
    /* Small frames have the room that `link_has_room` keeps. A host that never reads loses the session instead. */
    if (length > FRAME_MAX_BYTES || output_used + 2 * (HEADER_BYTES + length) > sizeof(output)) {
        is_lost = true;
        return;
    }
    unsigned char header[HEADER_BYTES] = {
        (unsigned char)type, 0, (unsigned char)(stream >> 8), (unsigned char)stream,
        (unsigned char)(length >> 24), (unsigned char)(length >> 16), (unsigned char)(length >> 8), (unsigned char)length,
    };
    put(header, sizeof(header));
    put(payload, length);
}

void link_begin(void)
{
    output_used = 0;
    output[output_used++] = BYTE_RESET;
}

bool link_flush(int port)
{
    while (output_used > 0) {
        ssize_t written = write(port, output, output_used);
        if (written == -1)
            return errno == EAGAIN || errno == EINTR;
        if (written == 0)
            return true;
        output_used -= (size_t)written;
        memmove(output, output + written, output_used);
    }
    return true;
}

bool link_has_output(void)
{
    return output_used > 0;
}

bool link_has_room(void)
{
    return output_used < sizeof(output) / 2;
}
