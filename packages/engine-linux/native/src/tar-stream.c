/* Reads ustar, pax and GNU archives as a stream. The input comes from anyone: every number and length is checked. */
#include "tar-stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

#define BLOCK 512u
#define BUFFER_BYTES (256u * 1024)
/* Extended headers hold paths and attributes of one entry. */
#define EXTENDED_MAX (1024u * 1024)

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], modified[12], checksum[8], type, link[100], magic[6], version[2],
        user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header fills a block");

static int input, output;
static char buffer[BUFFER_BYTES];
static size_t buffered, at;
static uint64_t data_left, padding_left;
static bool at_end;

void tar_open(int fd, int copy)
{
    input = fd;
    output = copy;
}

static void copy_out(const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(output, bytes, count);
        if (written == -1 && errno == EINTR)
            continue;
        CHECK(written, "write the copy");
        bytes += written;
        count -= (size_t)written;
    }
}

/* False at the end of the stream. */
static bool fill(void)
{
    ssize_t count;
    do
        count = read(input, buffer, sizeof(buffer));
    while (count == -1 && errno == EINTR);
    CHECK(count, "read the archive");
    buffered = (size_t)count;
    at = 0;
    copy_out(buffer, buffered);
    return count > 0;
}

static size_t take(uint64_t wanted, const char **piece)
{
    if (at == buffered && !fill())
        refuse("the archive ends in the middle of an entry");
    size_t count = buffered - at;
    if (count > wanted)
        count = (size_t)wanted;
    *piece = buffer + at;
    at += count;
    return count;
}

static void read_whole(void *into, size_t count)
{
    for (char *to = into; count > 0;) {
        const char *piece;
        size_t got = take(count, &piece);
        memcpy(to, piece, got);
        to += got;
        count -= got;
    }
}

static void skip(uint64_t count)
{
    const char *piece;
    while (count > 0)
        count -= take(count, &piece);
}

size_t tar_data(const char **piece)
{
    if (data_left == 0)
        return 0;
    size_t count = take(data_left, piece);
    data_left -= count;
    return count;
}

static void begin_data(uint64_t size)
{
    data_left = size;
    padding_left = (BLOCK - size % BLOCK) % BLOCK;
}

static void end_data(void)
{
    skip(data_left);
    skip(padding_left);
    data_left = padding_left = 0;
}

/* Octal, or GNU's big-endian binary form, which the first bit marks. */
static uint64_t number(const char *field, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)field;
    uint64_t value = 0;
    if (bytes[0] & 0x80) {
        if (bytes[0] != 0x80)
            refuse("the archive has a number that is negative or too large");
        for (size_t i = 1; i < length; i++) {
            if (value >> 55)
                refuse("the archive has a number that is too large");
            value = value << 8 | bytes[i];
        }
        return value;
    }
    size_t i = 0;
    while (i < length && field[i] == ' ')
        i++;
    for (; i < length && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    return value;
}

static bool is_sound(const struct header *header)
{
    const unsigned char *bytes = (const unsigned char *)header;
    uint64_t sum = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        bool in_field = i >= offsetof(struct header, checksum) && i < offsetof(struct header, type);
        sum += in_field ? ' ' : bytes[i];
    }
    return sum == number(header->checksum, sizeof(header->checksum));
}

static bool is_zero(const struct header *header)
{
    static const char zeros[BLOCK];
    return memcmp(header, zeros, BLOCK) == 0;
}

static char *duplicate(const char *text, size_t limit)
{
    char *copy = strndup(text, limit);
    if (!copy)
        refuse("out of memory");
    return copy;
}

static char *extended(uint64_t size)
{
    if (size > EXTENDED_MAX)
        refuse("the archive has an extended header of %llu bytes", (unsigned long long)size);
    char *text = calloc(1, (size_t)size + 1);
    if (!text)
        refuse("out of memory");
    begin_data(size);
    read_whole(text, (size_t)size);
    data_left = 0;
    end_data();
    return text;
}

static uint64_t decimal(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || (*end && *end != '.'))
        refuse("the archive has a number that cannot be read");
    return value;
}

static void replace(char **field, const char *value)
{
    free(*field);
    *field = duplicate(value, strlen(value));
}

static void add_xattr(struct tar_entry *entry, const char *name, const char *value, size_t length)
{
    if (entry->xattr_count == XATTRS_MAX)
        refuse("an entry of the archive has more than %d attributes", XATTRS_MAX);
    char *copy = malloc(length + 1);
    if (!copy)
        refuse("out of memory");
    memcpy(copy, value, length);
    entry->xattrs[entry->xattr_count++] = (struct tar_xattr){duplicate(name, strlen(name)), copy, length};
}

struct overrides {
    bool size, uid, gid, modified;
};

static void apply_record(struct tar_entry *entry, struct overrides *given, const char *key, char *value, size_t length)
{
    static const char xattr[] = "SCHILY.xattr.";
    if (!strcmp(key, "path"))
        replace(&entry->path, value);
    else if (!strcmp(key, "linkpath"))
        replace(&entry->link, value);
    else if (!strcmp(key, "size"))
        entry->size = decimal(value), given->size = true;
    else if (!strcmp(key, "uid"))
        entry->uid = decimal(value), given->uid = true;
    else if (!strcmp(key, "gid"))
        entry->gid = decimal(value), given->gid = true;
    else if (!strcmp(key, "mtime") && value[0] != '-')
        entry->modified.tv_sec = (time_t)decimal(value), given->modified = true;
    else if (!strncmp(key, xattr, sizeof(xattr) - 1))
        add_xattr(entry, key + sizeof(xattr) - 1, value, length);
    else if (!strncmp(key, "GNU.sparse.", 11))
        refuse("the archive has a sparse file, which is not supported");
}

/* Records have the form `LENGTH KEY=VALUE\n`; the length counts the whole record. */
static void apply_pax(struct tar_entry *entry, struct overrides *given, char *text, size_t size)
{
    for (size_t from = 0; from < size;) {
        char *end;
        unsigned long length = strtoul(text + from, &end, 10);
        char *equals = memchr(end, '=', size - (size_t)(end - text));
        if (*end != ' ' || length == 0 || length > size - from || !equals || equals >= text + from + length ||
            text[from + length - 1] != '\n')
            refuse("the archive has an extended header that cannot be read");
        char *value = equals + 1;
        text[from + length - 1] = '\0';
        *equals = '\0';
        apply_record(entry, given, end + 1, value, (size_t)(text + from + length - 1 - value));
        from += length;
    }
}

static void forget(struct tar_entry *entry)
{
    free(entry->path);
    free(entry->link);
    for (size_t i = 0; i < entry->xattr_count; i++) {
        free(entry->xattrs[i].name);
        free(entry->xattrs[i].value);
    }
    *entry = (struct tar_entry){0};
}

static void apply_header(struct tar_entry *entry, const struct overrides *given, const struct header *header)
{
    entry->type = header->type;
    entry->mode = (mode_t)number(header->mode, sizeof(header->mode)) & 07777;
    if (!given->uid)
        entry->uid = number(header->uid, sizeof(header->uid));
    if (!given->gid)
        entry->gid = number(header->gid, sizeof(header->gid));
    if (!given->size)
        entry->size = number(header->size, sizeof(header->size));
    if (!given->modified)
        entry->modified.tv_sec = (time_t)number(header->modified, sizeof(header->modified));
    if (!entry->link)
        entry->link = duplicate(header->link, sizeof(header->link));
    if (entry->path)
        return;
    /* Neither field needs a zero at its end. */
    bool has_prefix = !memcmp(header->magic, "ustar", 6) && header->prefix[0];
    int prefix = has_prefix ? (int)strnlen(header->prefix, sizeof(header->prefix)) : 0;
    int name = (int)strnlen(header->name, sizeof(header->name));
    if (asprintf(&entry->path, "%.*s%s%.*s", prefix, header->prefix, has_prefix ? "/" : "", name, header->name) == -1)
        refuse("out of memory");
}

static void read_to_end(void)
{
    at = buffered;
    while (fill())
        continue;
    at_end = true;
}

bool tar_next(struct tar_entry *entry)
{
    if (at_end)
        return false;
    end_data();
    forget(entry);
    struct overrides given = {0};
    for (;;) {
        struct header header;
        if (at == buffered && !fill()) {
            at_end = true;
            return false;
        }
        read_whole(&header, sizeof(header));
        if (is_zero(&header)) {
            read_to_end();
            return false;
        }
        if (!is_sound(&header))
            refuse("this is not a tar archive, or it is damaged");
        uint64_t size = number(header.size, sizeof(header.size));
        if (header.type == 'x' || header.type == 'g' || header.type == 'L' || header.type == 'K') {
            char *text = extended(size);
            if (header.type == 'x')
                apply_pax(entry, &given, text, (size_t)size);
            else if (header.type == 'L')
                replace(&entry->path, text);
            else if (header.type == 'K')
                replace(&entry->link, text);
            free(text);
            continue;
        }
        apply_header(entry, &given, &header);
        bool has_data = entry->type == '0' || entry->type == '\0' || entry->type == '7';
        if (!has_data && entry->type >= '1' && entry->type <= '6')
            entry->size = 0;
        begin_data(entry->size);
        return true;
    }
}
