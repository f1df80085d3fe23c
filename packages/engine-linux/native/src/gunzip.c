/*
 * Layers of images are nearly always gzip. zlib takes a quarter to a half of the time of the program gzip, and a fork
 * of a static program starts at once.
 */
#include "gunzip.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "report.h"

#define BUFFER_BYTES (256u * 1024)
/* The largest window, and a gzip header instead of one of zlib. */
#define GZIP_WINDOW (15 + 16)

static unsigned char input[BUFFER_BYTES], output[BUFFER_BYTES];

static void write_whole(int fd, const unsigned char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(fd, bytes, count);
        if (written == -1 && errno == EINTR)
            continue;
        CHECK(written, "write the decompressed layer");
        bytes += written;
        count -= (size_t)written;
    }
}

/* False at the end of the file. */
static bool fill(z_stream *stream, int fd)
{
    ssize_t count;
    do
        count = read(fd, input, sizeof(input));
    while (count == -1 && errno == EINTR);
    CHECK(count, "read the compressed layer");
    stream->next_in = input;
    stream->avail_in = (uInt)count;
    return count > 0;
}

/* Whether another member follows. As with gzip, zeros may fill up the last block of a tape. */
static bool find_member(z_stream *stream, int fd)
{
    do
        for (; stream->avail_in > 0; stream->next_in++, stream->avail_in--)
            if (*stream->next_in != 0)
                return true;
    while (fill(stream, fd));
    return false;
}

static void read_member(z_stream *stream, int from, int to)
{
    for (int status = Z_OK; status != Z_STREAM_END;) {
        if (stream->avail_in == 0 && !fill(stream, from))
            refuse("the compressed layer is cut off");
        stream->next_out = output;
        stream->avail_out = sizeof(output);
        status = inflate(stream, Z_NO_FLUSH);
        if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
            refuse("the compressed layer is damaged: %s", stream->msg ? stream->msg : "no reason is known");
        write_whole(to, output, sizeof(output) - stream->avail_out);
    }
}

void gunzip(int from, int to)
{
    z_stream stream = {0};
    if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
        refuse("zlib cannot start");
    while (find_member(&stream, from)) {
        read_member(&stream, from, to);
        inflateReset(&stream);
    }
    inflateEnd(&stream);
}
