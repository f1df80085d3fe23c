/*
 * Loaded by the Node kernel inside burrows. reseed() gives OpenSSL's random generator new entropy: its state is part of
 * a snapshot, and copies of a process would agree on their keys. Node offers no such function, but exports OpenSSL.
 * Without libc, like the guard: it loads into a Node of any libc.
 */
#define NAPI_VERSION 8
#include <node_api.h>
#include <stddef.h>

extern int RAND_poll(void) __attribute__((weak));

static napi_value reseed(napi_env env, napi_callback_info info)
{
    napi_value done;

    (void)info;
    /* A Node with another library for cryptography lacks the symbol. */
    if (napi_get_boolean(env, RAND_poll != NULL && RAND_poll() == 1, &done) != napi_ok)
        return NULL;
    return done;
}

NAPI_MODULE_INIT()
{
    napi_value function;

    if (napi_create_function(env, "reseed", NAPI_AUTO_LENGTH, reseed, NULL, &function) != napi_ok)
        return NULL;
    if (napi_set_named_property(env, exports, "reseed", function) != napi_ok)
        return NULL;
    return exports;
}
