/*
 * hostname.node: gives the UTS namespace of a burrow its name.
 *
 * At once, not as a promise: the thread that goes there makes two system calls and ends. No thread of Node's ever goes there itself.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NAPI_VERSION 8
#include <node_api.h>

#define STACK_BYTES (64 * 1024)

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

static int set(struct call *call)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    /* A new thread has the mask of its maker: signals are for threads that live on. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, set_inside, call);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0)
        pthread_join(thread, NULL);
    return error ?: call->error;
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
    int error = set(&call);
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
