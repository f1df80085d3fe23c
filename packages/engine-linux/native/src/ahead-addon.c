/*
 * ahead.node: reads a snapshot into the page cache ahead of its restore, and lists which pages a restored process has
 * touched.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#define NAPI_VERSION 8
#include <node_api.h>

#include "read-ahead.h"

#define STACK_BYTES (256 * 1024)
#define PIDS_MAX 64
#define TOUCHED_MAX_BYTES (1u << 20)

static char *text_of(napi_env env, napi_value value)
{
    size_t length;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok)
        return NULL;
    char *text = malloc(length + 1);
    if (text && napi_get_value_string_utf8(env, value, text, length + 1, &length) != napi_ok) {
        free(text);
        return NULL;
    }
    return text;
}

static void *read_on_thread(void *work)
{
    read_ahead(work);
    return NULL;
}

/* readAhead(list, memory, images, root): a hint, so failures are not reported. The thread ends by itself. */
static napi_value start_reading(napi_env env, napi_callback_info info)
{
    napi_value arguments[4];
    size_t count = 4;
    struct read_ahead *work = calloc(1, sizeof(*work));
    if (!work || napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 4) {
        free(work);
        return NULL;
    }
    work->list = text_of(env, arguments[0]);
    work->memory = text_of(env, arguments[1]);
    work->images = text_of(env, arguments[2]);
    work->root = text_of(env, arguments[3]);
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int is_ready = work->list && work->memory && work->images && work->root;
    if (!is_ready || pthread_create(&thread, &attributes, read_on_thread, work) != 0) {
        free(work->list);
        free(work->memory);
        free(work->images);
        free(work->root);
        free(work);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return NULL;
}

struct listing {
    napi_async_work work;
    napi_deferred deferred;
    pid_t pids[PIDS_MAX];
    uint32_t count;
    char *text;
    size_t length;
};

static void list_all(napi_env env, void *data)
{
    (void)env;
    struct listing *listing = data;
    listing->text = malloc(TOUCHED_MAX_BYTES);
    for (uint32_t i = 0; listing->text && i < listing->count; i++)
        listing->length = list_touched(listing->pids[i], listing->text, listing->length, TOUCHED_MAX_BYTES);
}

static void finish_listing(napi_env env, napi_status status, void *data)
{
    struct listing *listing = data;
    napi_value text;
    if (status == napi_ok && napi_create_string_utf8(env, listing->text ?: "", listing->length, &text) == napi_ok)
        napi_resolve_deferred(env, listing->deferred, text);
    napi_delete_async_work(env, listing->work);
    free(listing->text);
    free(listing);
}

/* listTouched(pids): a promise of the lines. */
static napi_value start_listing(napi_env env, napi_callback_info info)
{
    napi_value pids, name, promise;
    size_t count = 1;
    struct listing *listing = calloc(1, sizeof(*listing));
    uint32_t total = 0;
    if (!listing || napi_get_cb_info(env, info, &count, &pids, NULL, NULL) != napi_ok || count < 1 ||
        napi_get_array_length(env, pids, &total) != napi_ok)
        goto failed;
    for (uint32_t i = 0; i < total && i < PIDS_MAX; i++) {
        napi_value pid;
        if (napi_get_element(env, pids, i, &pid) != napi_ok ||
            napi_get_value_int32(env, pid, &listing->pids[listing->count]) != napi_ok)
            goto failed;
        listing->count++;
    }
    if (napi_create_string_utf8(env, "listTouched", NAPI_AUTO_LENGTH, &name) != napi_ok ||
        napi_create_promise(env, &listing->deferred, &promise) != napi_ok ||
        napi_create_async_work(env, NULL, name, list_all, finish_listing, listing, &listing->work) != napi_ok)
        goto failed;
    if (napi_queue_async_work(env, listing->work) != napi_ok) {
        napi_delete_async_work(env, listing->work);
        goto failed;
    }
    return promise;
failed:
    free(listing);
    napi_throw_type_error(env, "EINVAL", "expected a list of pids");
    return NULL;
}

NAPI_MODULE_INIT()
{
    napi_value reading, listing;
    if (napi_create_function(env, "readAhead", NAPI_AUTO_LENGTH, start_reading, NULL, &reading) != napi_ok ||
        napi_set_named_property(env, exports, "readAhead", reading) != napi_ok ||
        napi_create_function(env, "listTouched", NAPI_AUTO_LENGTH, start_listing, NULL, &listing) != napi_ok ||
        napi_set_named_property(env, exports, "listTouched", listing) != napi_ok)
        return NULL;
    return exports;
}
