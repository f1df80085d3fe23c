#pragma once

#define NAPI_VERSION 8
#include <node_api.h>

/*
 * Calls of gate.node that return at once. They work on descriptors that the event loop of the calling thread polls, so
 * they must run on that thread. Lists of descriptors are an Int32Array.
 */

/* (fds, maxBytes): for each, a record with `old` and `standIn`, or undefined for one that cannot be kept. */
napi_value park_ends_call(napi_env env, napi_callback_info info);
/* (fd, old, standIn, fd, …): ends that were parked continue as they were. */
napi_value revive_ends_call(napi_env env, napi_callback_info info);
/* (fd, next, standIn, fd, …): what `fd` refers to is `next` from now on. */
napi_value put_ends_call(napi_env env, napi_callback_info info);
/* (fds, isOn): whether closing them resets their connections, also when the process ends. */
napi_value reset_on_close_call(napi_env env, napi_callback_info info);
/* (records, fds): ends that makeEnds made begin to send. */
napi_value start_ends_call(napi_env env, napi_callback_info info);
