#include "filters.h"

#include <linux/filter.h>

#include "load-filter.h"
#include "report.h"

#define FILTERS_MAX 8

static struct sock_fprog programs[FILTERS_MAX];
static int count;

void filters_add(const char *path)
{
    if (count == FILTERS_MAX)
        refuse("too many filters");
    if (!filter_read(path, &programs[count]))
        fail("filter %s", path);
    count++;
}

int filters_count(void)
{
    return count;
}

void filters_load(void)
{
    for (int i = 0; i < count; i++)
        if (!filter_load(&programs[i]))
            fail("loading a filter");
}
