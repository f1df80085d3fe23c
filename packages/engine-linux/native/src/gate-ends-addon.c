#include "gate-ends-addon.h"

#include <linux/sockios.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gate-ends.h"

struct uv_loop_s;
int uv_backend_fd(const struct uv_loop_s *loop);

struct descriptors {
    const int *fds;
    size_t count;
};

static napi_value refuse(napi_env env, const char *expected)
{
    napi_throw_type_error(env, "EINVAL", expected);
    return NULL;
}

static bool read_descriptors(napi_env env, napi_value from, struct descriptors *into)
{
    napi_typedarray_type type;
    void *numbers;
    if (napi_get_typedarray_info(env, from, &type, &into->count, &numbers, NULL, NULL) != napi_ok ||
        type != napi_int32_array)
        return false;
    into->fds = numbers;
    for (size_t i = 0; i < into->count; i++)
        if (into->fds[i] < 0)
            return false;
    return true;
}

/* The epoll set of the calling thread's event loop, and what it has registered for these descriptors. */
static uint32_t *find_events(napi_env env, const struct descriptors *descriptors, int *epoll)
{
    struct uv_loop_s *loop;
    int highest = 0;
    if (napi_get_uv_event_loop(env, &loop) != napi_ok)
        return NULL;
    *epoll = uv_backend_fd(loop);
    for (size_t i = 0; i < descriptors->count; i++)
        if (descriptors->fds[i] > highest)
            highest = descriptors->fds[i];
    return read_events(*epoll, highest + 1);
}

static void set_number(napi_env env, napi_value object, const char *name, int number)
{
    napi_value value;
    napi_create_int32(env, number, &value);
    napi_set_named_property(env, object, name, value);
}

static void put_bool(napi_env env, napi_value list, uint32_t at, bool is_true)
{
    napi_value value;
    napi_get_boolean(env, is_true, &value);
    napi_set_element(env, list, at, value);
}

static void describe(napi_env env, napi_value list, uint32_t at, const struct parked_end *parked)
{
    napi_value object, record;
    void *copy;
    napi_create_object(env, &object);
    napi_create_buffer_copy(env, ((const struct end_record *)parked->record)->size, parked->record, &copy, &record);
    napi_set_named_property(env, object, "record", record);
    set_number(env, object, "old", parked->old);
    set_number(env, object, "standIn", parked->stand_in);
    napi_set_element(env, list, at, object);
}

struct ranked {
    uint32_t index;
    int bytes;
};

static int compare(const void *a, const void *b)
{
    return ((const struct ranked *)a)->bytes - ((const struct ranked *)b)->bytes;
}

/* Those on which least is in flight come first: a few full ones must not take the room of many idle ones. */
static struct ranked *rank(const struct descriptors *ends)
{
    struct ranked *ranks = calloc(ends->count + 1, sizeof(*ranks));
    for (uint32_t i = 0; ranks && i < ends->count; i++) {
        int received = 0, unsent = 0;
        ioctl(ends->fds[i], SIOCINQ, &received);
        ioctl(ends->fds[i], SIOCOUTQ, &unsent);
        ranks[i] = (struct ranked){.index = i, .bytes = received / 2 + unsent / 2};
    }
    if (ranks)
        qsort(ranks, ends->count, sizeof(*ranks), compare);
    return ranks;
}

napi_value park_ends_call(napi_env env, napi_callback_info info)
{
    napi_value arguments[2], list;
    size_t count = 2;
    struct descriptors ends;
    uint32_t left;
    int epoll;
    if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 2 ||
        !read_descriptors(env, arguments[0], &ends) || napi_get_value_uint32(env, arguments[1], &left) != napi_ok)
        return refuse(env, "expected descriptors and a number of bytes");
    uint32_t *events = find_events(env, &ends, &epoll);
    struct ranked *ranks = rank(&ends);
    napi_create_array_with_length(env, ends.count, &list);
    for (uint32_t i = 0; events && ranks && i < ends.count; i++) {
        struct parked_end parked;
        if (!park_end(epoll, events, ends.fds[ranks[i].index], left, &parked))
            continue;
        describe(env, list, ranks[i].index, &parked);
        left -= ((const struct end_record *)parked.record)->size;
        free(parked.record);
    }
    free(ranks);
    free(events);
    return list;
}

napi_value reset_on_close_call(napi_env env, napi_callback_info info)
{
    napi_value arguments[2];
    size_t count = 2;
    struct descriptors outside;
    bool is_on;
    if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 2 ||
        !read_descriptors(env, arguments[0], &outside) || napi_get_value_bool(env, arguments[1], &is_on) != napi_ok)
        return refuse(env, "expected descriptors and a boolean");
    for (size_t i = 0; i < outside.count; i++)
        reset_on_close(outside.fds[i], is_on);
    return NULL;
}

static napi_value put_all(napi_env env, napi_callback_info info, bool is_old)
{
    napi_value arguments[1], list;
    size_t count = 1;
    struct descriptors ends;
    int epoll;
    if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 1 ||
        !read_descriptors(env, arguments[0], &ends) || ends.count % 3 != 0)
        return refuse(env, "expected three descriptors for each end");
    uint32_t *events = find_events(env, &ends, &epoll);
    napi_create_array_with_length(env, ends.count / 3, &list);
    for (uint32_t i = 0; events && i < ends.count / 3; i++) {
        const int *end = ends.fds + 3 * i;
        if (is_old)
            revive_end(end[1]);
        put_bool(env, list, i, put_end(epoll, events, end[0], end[1], end[2]));
    }
    free(events);
    return list;
}

napi_value revive_ends_call(napi_env env, napi_callback_info info)
{
    return put_all(env, info, true);
}

napi_value put_ends_call(napi_env env, napi_callback_info info)
{
    return put_all(env, info, false);
}

napi_value start_ends_call(napi_env env, napi_callback_info info)
{
    napi_value arguments[2], list;
    size_t count = 2, size;
    void *records;
    struct descriptors ends;
    if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 2 ||
        napi_get_buffer_info(env, arguments[0], &records, &size) != napi_ok ||
        !read_descriptors(env, arguments[1], &ends))
        return refuse(env, "expected records and descriptors");
    napi_create_array_with_length(env, ends.count, &list);
    const struct end_record *record = NULL;
    for (uint32_t i = 0; i < ends.count && (record = next_record(records, size, record)) != NULL; i++)
        put_bool(env, list, i, start_end(ends.fds[i], record));
    return list;
}
