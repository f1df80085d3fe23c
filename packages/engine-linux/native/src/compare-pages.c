#include "compare-pages.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "checksum.h"
#include "report.h"

static void require_pages(const struct source *source, uint64_t from, uint64_t length)
{
    if (source->fd == -1)
        refuse("plan: pages before their files");
    if (from % PAGE_BYTES || length % PAGE_BYTES)
        refuse("plan: not whole pages");
    /* Reading a mapping past the end of its file would end this process with SIGBUS. */
    if (from > source->size || length > source->size - from)
        refuse("plan: the pages image is too short");
}

void tell_same(const struct source *source, const struct source *base, uint64_t from, uint64_t at, uint64_t length)
{
    require_pages(source, from, length);
    require_pages(base, 0, 0);
    if (at % PAGE_BYTES)
        refuse("plan: not whole pages");
    uint64_t same = 0; /* Length of the equal run that ends here. */
    for (uint64_t done = 0; done <= length; done += PAGE_BYTES) {
        bool is_inside = done < length && at + done + PAGE_BYTES <= base->size;
        if (is_inside && !memcmp(source->bytes + from + done, base->bytes + at + done, PAGE_BYTES)) {
            same += PAGE_BYTES;
            continue;
        }
        if (same)
            printf("same %" PRIu64 " %" PRIu64 "\n", from + done - same, same);
        same = 0;
    }
}
