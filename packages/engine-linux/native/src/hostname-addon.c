/*
 * hostname.node: sets the host name of a burrow's UTS namespace.
 *
 * Synchronous, not a promise: its thread makes two system calls and ends.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NAPI_VERSION 8
#include <node_api.h>

#include "own-thread.h"

struct call {
    int utsns;
    char name[sizeof(((struct utsname *)0)->nodename)];
    size_t length;
    int error;
};

static void *set_inside(void *argument)
{
    struct call *call = argument;
    if (setns(call->utsns, CLONE_NEWUTS) == -1 || sethostname(call->name, call->length) == -1)
        call->error = errno;
    return NULL;
}

static napi_value set_hostname(napi_env env, napi_callback_info info)
{
    napi_value arguments[2];
    size_t count = 2;
    struct call call = {0};
    if (napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 2 ||
        napi_get_value_int32(env, arguments[0], &call.utsns) != napi_ok ||
        napi_get_value_string_utf8(env, arguments[1], NULL, 0, &call.length) != napi_ok || call.length >= sizeof(call.name) ||
        napi_get_value_string_utf8(env, arguments[1], call.name, sizeof(call.name), &call.length) != napi_ok) {
        napi_throw_type_error(env, "EINVAL", "expected the descriptor of a UTS namespace and a name of at most 64 bytes");
        return NULL;
    }
    int error = in_own_thread(set_inside, &call) ?: call.error;
    if (error != 0) {
        char text[128];
        snprintf(text, sizeof(text), "set the host name: %s", strerror(error));
        napi_throw_error(env, strerrorname_np(error) ?: "EUNKNOWN", text);
    }
    return NULL;
}

NAPI_MODULE_INIT()
{
    napi_value function;
    if (napi_create_function(env, "setHostname", NAPI_AUTO_LENGTH, set_hostname, NULL, &function) != napi_ok ||
        napi_set_named_property(env, exports, "setHostname", function) != napi_ok)
        return NULL;
    return exports;
}
