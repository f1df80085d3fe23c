#include "privileges.h"

#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "capabilities.h"
#include "load-filter.h"
#include "report.h"

/* In the order of loading: see export-filters.c. The base comes first, as in processes that CRIU restores. */
static const char *const names[] = {"seccomp-base.bpf", "seccomp-deny.bpf", "seccomp-allow.bpf"};
#define COUNT (sizeof(names) / sizeof(*names))

struct filters {
    struct sock_fprog programs[COUNT];
};

struct filters *filters_read(const char *directory)
{
    struct filters *filters = malloc(sizeof(*filters));
    if (!filters)
        fail("filters");
    for (size_t i = 0; i < COUNT; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        if (!filter_read(path, &filters->programs[i]))
            fail("read %s", names[i]);
    }
    return filters;
}

void drop_privileges(const struct filters *filters)
{
    if (!keep_capabilities(burrow_capabilities()))
        fail("limit capabilities");
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    for (size_t i = 0; i < COUNT; i++)
        if (!filter_load(&filters->programs[i]))
            fail("load %s", names[i]);
}
