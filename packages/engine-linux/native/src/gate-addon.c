/*
 * gate.node: operations of the server in network namespaces of burrows, and of programs that it confines. Each returns
 * a promise.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAPI_VERSION 8
#include <node_api.h>

#include "gate-ends-addon.h"
#include "gate-ends.h"
#include "gate.h"
#include "own-thread.h"

enum task { OPEN_GATE, HANG_UP, HOLD, RELEASE, CONNECT_PORT, MAKE_NETWORK, LISTEN, MAKE_ENDS, PROBE };

struct call {
    napi_async_work work;
    napi_deferred deferred;
    enum task task;
    int netns;
    uint16_t port;
    bool is_done;
    struct gate gate;
    int count;
    int connection;
    int network;
    int listener;
    /* Of HANG_UP and MAKE_ENDS, with the ends that were made; -1 stands for one that could not be. */
    unsigned char *records;
    size_t records_size;
    int *ends;
    uint32_t ends_count;
    struct failure failure;
};

static bool make_ends(struct call *call)
{
    const struct end_record *record = NULL;
    while ((record = next_record(call->records, call->records_size, record)) != NULL)
        call->ends[call->ends_count++] = make_end(record);
    return true;
}

static void *run_inside(void *argument)
{
    struct call *call = argument;
    struct failure *failure = &call->failure;
    if (call->task != PROBE && call->task != MAKE_NETWORK && !enter_network(call->netns, failure))
        return NULL;
    switch (call->task) {
    case OPEN_GATE:
        call->is_done = open_gate(call->netns, &call->gate, failure);
        break;
    case HANG_UP:
        call->is_done = hang_up_outside(call->records, call->records_size, &call->count, failure);
        break;
    case HOLD:
        call->is_done = hold_connections(failure);
        break;
    case RELEASE:
        call->is_done = release_connections(failure);
        break;
    case CONNECT_PORT:
        call->is_done = connect_port(call->port, &call->connection, failure);
        break;
    case MAKE_NETWORK:
        call->is_done = make_network(&call->network, failure);
        break;
    case LISTEN:
        call->is_done = listen_loopback(call->port, &call->listener, failure);
        break;
    case MAKE_ENDS:
        call->is_done = make_ends(call);
        break;
    case PROBE:
        call->is_done = probe_steering(failure);
        break;
    }
    return NULL;
}

/* Runs in a thread of Node's pool, which must neither block for long nor change its own namespace. */
static void execute(napi_env env, void *data)
{
    (void)env;
    struct call *call = data;
    errno = in_own_thread(run_inside, call);
    if (errno != 0)
        failed(&call->failure, "start a thread");
}

static napi_value describe_failure(napi_env env, const struct failure *failure)
{
    char text[256];
    napi_value code, message, error;
    snprintf(text, sizeof(text), "%s: %s", failure->step, strerror(failure->error));
    napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &message);
    napi_create_string_utf8(env, strerrorname_np(failure->error) ?: "EUNKNOWN", NAPI_AUTO_LENGTH, &code);
    napi_create_error(env, code, message, &error);
    return error;
}

static void set_number(napi_env env, napi_value object, const char *name, int number)
{
    napi_value value;
    napi_create_int32(env, number, &value);
    napi_set_named_property(env, object, name, value);
}

static napi_value describe_result(napi_env env, const struct call *call)
{
    napi_value result;
    napi_create_object(env, &result);
    if (call->task == OPEN_GATE) {
        set_number(env, result, "tcp", call->gate.tcp);
        set_number(env, result, "dns", call->gate.dns);
        set_number(env, result, "link", call->gate.link);
    } else if (call->task == HANG_UP) {
        set_number(env, result, "count", call->count);
    } else if (call->task == CONNECT_PORT) {
        set_number(env, result, "connection", call->connection);
    } else if (call->task == MAKE_NETWORK) {
        set_number(env, result, "network", call->network);
    } else if (call->task == LISTEN) {
        set_number(env, result, "listener", call->listener);
    } else if (call->task == MAKE_ENDS) {
        napi_value ends, fd;
        napi_create_array_with_length(env, call->ends_count, &ends);
        for (uint32_t i = 0; i < call->ends_count; i++) {
            napi_create_int32(env, call->ends[i], &fd);
            napi_set_element(env, ends, i, fd);
        }
        napi_set_named_property(env, result, "ends", ends);
    }
    return result;
}

static void free_call(struct call *call)
{
    free(call->records);
    free(call->ends);
    free(call);
}

static void complete(napi_env env, napi_status status, void *data)
{
    struct call *call = data;
    if (status == napi_cancelled) {
        errno = ECANCELED;
        failed(&call->failure, "the server ends");
    }
    if (call->is_done)
        napi_resolve_deferred(env, call->deferred, describe_result(env, call));
    else
        napi_reject_deferred(env, call->deferred, describe_failure(env, &call->failure));
    napi_delete_async_work(env, call->work);
    free_call(call);
}

/* Copies the records: the work runs on another thread. */
static bool take_records(napi_env env, napi_value from, struct call *call)
{
    void *bytes;
    size_t size;
    if (napi_get_buffer_info(env, from, &bytes, &size) != napi_ok)
        return false;
    call->records = malloc(size + 1);
    call->ends = calloc(size / sizeof(struct end_record) + 1, sizeof(*call->ends));
    if (!call->records || !call->ends)
        return false;
    memcpy(call->records, bytes, size);
    call->records_size = size;
    return true;
}

static napi_value start(napi_env env, napi_callback_info info, enum task task)
{
    napi_value arguments[2], promise, name;
    size_t count = 2;
    int netns = -1, port = 0;
    if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok ||
        (task != PROBE && task != MAKE_NETWORK && (count < 1 || napi_get_value_int32(env, arguments[0], &netns) != napi_ok))) {
        napi_throw_type_error(env, "EINVAL", "expected the descriptor of a network namespace");
        return NULL;
    }
    /* A listener may have any port. */
    const int lowest = task == LISTEN ? 0 : 1;
    if ((task == CONNECT_PORT || task == LISTEN) &&
        (count < 2 || napi_get_value_int32(env, arguments[1], &port) != napi_ok || port < lowest || port > UINT16_MAX)) {
        napi_throw_type_error(env, "EINVAL", "expected a port up to 65535");
        return NULL;
    }
    struct call *call = calloc(1, sizeof(*call));
    if (!call) {
        napi_throw_error(env, "ENOMEM", "no memory");
        return NULL;
    }
    call->task = task;
    call->netns = netns;
    call->port = (uint16_t)port;
    if ((task == MAKE_ENDS || (task == HANG_UP && count > 1)) && !(count > 1 && take_records(env, arguments[1], call))) {
        free_call(call);
        napi_throw_type_error(env, "EINVAL", "expected a buffer of records");
        return NULL;
    }
    if (napi_create_string_utf8(env, "dormouse-gate", NAPI_AUTO_LENGTH, &name) != napi_ok ||
        napi_create_promise(env, &call->deferred, &promise) != napi_ok ||
        napi_create_async_work(env, NULL, name, execute, complete, call, &call->work) != napi_ok ||
        napi_queue_async_work(env, call->work) != napi_ok) {
        free_call(call);
        napi_throw_error(env, NULL, "Node cannot start the work");
        return NULL;
    }
    return promise;
}

static napi_value open_gate_call(napi_env env, napi_callback_info info)
{
    return start(env, info, OPEN_GATE);
}

static napi_value hang_up_call(napi_env env, napi_callback_info info)
{
    return start(env, info, HANG_UP);
}

static napi_value hold_call(napi_env env, napi_callback_info info)
{
    return start(env, info, HOLD);
}

static napi_value release_call(napi_env env, napi_callback_info info)
{
    return start(env, info, RELEASE);
}

static napi_value connect_port_call(napi_env env, napi_callback_info info)
{
    return start(env, info, CONNECT_PORT);
}

static napi_value make_network_call(napi_env env, napi_callback_info info)
{
    return start(env, info, MAKE_NETWORK);
}

static napi_value listen_call(napi_env env, napi_callback_info info)
{
    return start(env, info, LISTEN);
}

static napi_value make_ends_call(napi_env env, napi_callback_info info)
{
    return start(env, info, MAKE_ENDS);
}

static napi_value probe_call(napi_env env, napi_callback_info info)
{
    return start(env, info, PROBE);
}

NAPI_MODULE_INIT()
{
    static const struct { const char *name; napi_callback call; } functions[] = {
        {"openGate", open_gate_call},
        {"hangUpOutside", hang_up_call},
        {"holdConnections", hold_call},
        {"releaseConnections", release_call},
        {"connectPort", connect_port_call},
        {"makeNetwork", make_network_call},
        {"listenLoopback", listen_call},
        {"makeEnds", make_ends_call},
        {"startEnds", start_ends_call},
        {"parkEnds", park_ends_call},
        {"reviveEnds", revive_ends_call},
        {"putEnds", put_ends_call},
        {"resetOnClose", reset_on_close_call},
        {"probe", probe_call},
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        napi_value function;
        if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &function) != napi_ok ||
            napi_set_named_property(env, exports, functions[i].name, function) != napi_ok)
            return NULL;
    }
    return exports;
}
