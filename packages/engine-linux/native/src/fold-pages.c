#include "fold-pages.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checksum.h"
#include "report.h"

#define MAGIC "dmfold1\n"
#define MAGIC_BYTES 8
#define WORDS (PAGE_BYTES / sizeof(uint64_t))
#define MAP_WORDS (WORDS / 64)
/* With more words the page itself is shorter. */
#define DELTA_MAX_WORDS (WORDS - MAP_WORDS - 1)
/* Written at once. */
#define BATCH_BYTES (256u * 1024)

static void put(FILE *folded, const void *bytes, size_t length)
{
    if (fwrite(bytes, 1, length, folded) != length)
        fail("write folded pages");
}

FILE *make_folded(const char *path)
{
    FILE *folded = fopen(path, "wxe");
    if (!folded)
        fail("make %s", path);
    put(folded, MAGIC, MAGIC_BYTES);
    return folded;
}

void close_folded(FILE *folded, const char *path)
{
    if (fclose(folded))
        fail("write %s", path);
}

void fold_base(FILE *folded, const char *name)
{
    size_t length = strlen(name);
    if (length > UINT16_MAX)
        refuse("plan: a name is too long");
    uint16_t stored = (uint16_t)length;
    put(folded, "b", 1);
    put(folded, &stored, sizeof(stored));
    put(folded, name, length);
}

static void fold_page(FILE *folded, const char *page, const char *former, uint64_t at)
{
    uint64_t map[MAP_WORDS] = {0}, changed[WORDS];
    size_t count = 0;
    for (size_t i = 0; former && i < WORDS; i++) {
        uint64_t now, before;
        memcpy(&now, page + i * sizeof(now), sizeof(now));
        memcpy(&before, former + i * sizeof(before), sizeof(before));
        if (now == before)
            continue;
        map[i / 64] |= UINT64_C(1) << (i % 64);
        changed[count++] = now;
    }
    if (!former || count > DELTA_MAX_WORDS) {
        put(folded, "r", 1);
        put(folded, page, PAGE_BYTES);
        return;
    }
    put(folded, "d", 1);
    put(folded, &at, sizeof(at));
    put(folded, map, sizeof(map));
    put(folded, changed, count * sizeof(*changed));
}

void fold_pages(FILE *folded, const struct source *source, const struct source *base, uint64_t from, uint64_t at, uint64_t length)
{
    if (!folded || source->fd == -1)
        refuse("plan: pages before their files");
    if (from % PAGE_BYTES || at % PAGE_BYTES || length % PAGE_BYTES)
        refuse("plan: not whole pages");
    /* Reading a mapping past the end of its file would end this process with SIGBUS. */
    if (from > source->size || length > source->size - from)
        refuse("plan: the pages image is too short");
    for (uint64_t done = 0; done < length; done += PAGE_BYTES) {
        const char *page = source->bytes + from + done;
        bool has_base = base && base->size >= PAGE_BYTES && at + done <= base->size - PAGE_BYTES;
        if (is_zero_page(page))
            put(folded, "z", 1);
        else
            fold_page(folded, page, has_base ? base->bytes + at + done : NULL, at + done);
    }
}

struct unfolding {
    const char *bytes;
    uint64_t left;
    struct target *kept;
    char *batch;
    uint64_t filled;
};

static const char *take(struct unfolding *unfolding, uint64_t length)
{
    if (length > unfolding->left)
        refuse("the folded pages end in the middle of a record");
    const char *taken = unfolding->bytes;
    unfolding->bytes += length;
    unfolding->left -= length;
    return taken;
}

static void flush_batch(struct unfolding *unfolding)
{
    struct target *kept = unfolding->kept;
    for (uint64_t done = 0; done < unfolding->filled;) {
        ssize_t written = pwrite(kept->fd, unfolding->batch + done, unfolding->filled - done, (off_t)(kept->size + done));
        if (written == -1 && errno == EINTR)
            continue;
        if (written <= 0)
            fail("write pages");
        done += (uint64_t)written;
    }
    kept->size += unfolding->filled;
    unfolding->filled = 0;
}

static void open_base(struct unfolding *unfolding, struct source *base, const char *memory)
{
    uint16_t length;
    memcpy(&length, take(unfolding, sizeof(length)), sizeof(length));
    const char *name = take(unfolding, length);
    char path[PATH_MAX];
    if (length == 0 || memchr(name, '/', length) || memchr(name, '\0', length) || name[0] == '.')
        refuse("the folded pages name no memory file");
    if ((size_t)snprintf(path, sizeof(path), "%s/%.*s", memory, (int)length, name) >= sizeof(path))
        refuse("plan: a path is too long");
    open_source(base, path);
}

static void unfold_delta(struct unfolding *unfolding, const struct source *base, char *page)
{
    uint64_t at, map[MAP_WORDS];
    memcpy(&at, take(unfolding, sizeof(at)), sizeof(at));
    memcpy(map, take(unfolding, sizeof(map)), sizeof(map));
    if (base->fd == -1 || at % PAGE_BYTES || base->size < PAGE_BYTES || at > base->size - PAGE_BYTES)
        refuse("the folded pages need a page that is not there");
    /* Reading costs less than the fault of a mapping: the pages are scattered. */
    if (pread(base->fd, page, PAGE_BYTES, (off_t)at) != (ssize_t)PAGE_BYTES)
        fail("read memory file");
    for (size_t group = 0; group < MAP_WORDS; group++)
        for (uint64_t bits = map[group]; bits; bits &= bits - 1) {
            size_t word = group * 64 + (size_t)__builtin_ctzll(bits);
            memcpy(page + word * sizeof(uint64_t), take(unfolding, sizeof(uint64_t)), sizeof(uint64_t));
        }
}

void unfold_pages(const struct source *source, struct target *kept, const char *memory)
{
    if (source->fd == -1 || kept->fd == -1)
        refuse("plan: pages before their files");
    struct unfolding unfolding = {.bytes = source->bytes, .left = source->size, .kept = kept, .batch = malloc(BATCH_BYTES)};
    struct source base = {.fd = -1};
    if (!unfolding.batch)
        fail("memory");
    /* CRIU reads it without privileges over the host. The directory above keeps other users out. */
    CHECK(fchmod(kept->fd, 0644), "mode of pages");
    if (memcmp(take(&unfolding, MAGIC_BYTES), MAGIC, MAGIC_BYTES))
        refuse("these are no folded pages");
    while (unfolding.left > 0) {
        char kind = *take(&unfolding, 1);
        if (kind == 'b') {
            open_base(&unfolding, &base, memory);
            continue;
        }
        char *page = unfolding.batch + unfolding.filled;
        if (kind == 'd')
            unfold_delta(&unfolding, &base, page);
        else if (kind == 'r')
            memcpy(page, take(&unfolding, PAGE_BYTES), PAGE_BYTES);
        else if (kind == 'z')
            memset(page, 0, PAGE_BYTES);
        else
            refuse("the folded pages have an unknown record");
        unfolding.filled += PAGE_BYTES;
        if (unfolding.filled == BATCH_BYTES)
            flush_batch(&unfolding);
    }
    flush_batch(&unfolding);
    close_source(&base);
    free(unfolding.batch);
}
