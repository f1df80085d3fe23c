/*
 * start.node: starts programs without copying this process.
 *
 * Node forks. Forking a process with a heap of hundreds of megabytes takes milliseconds, and afterwards every page that
 * either side writes costs a page fault. posix_spawn lets the child share the memory until it executes the program.
 *
 * One thread for each Node environment watches all children. It does not reap them: a pid stays taken until JavaScript
 * has been told that the process ended, so JavaScript never signals an unrelated process.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAPI_VERSION 8
#include <node_api.h>

#define STACK_BYTES (256 * 1024)
#define STDIO_MAX 8
/* Values in the stdio array that are not descriptors. */
#define NOTHING (-1)
#define PIPE (-2)
/* Above all target numbers, so that dup2 of one descriptor never overwrites another. */
#define ABOVE_STDIO 64

struct starter {
    int epoll;
    int stop;
    bool is_watching;
    pthread_t thread;
    napi_threadsafe_function on_end;
    int alive;
};

struct child {
    pid_t pid;
    int pidfd;
};

static void throw_errno(napi_env env, const char *what, int error)
{
    char text[256];
    snprintf(text, sizeof(text), "%s: %s", what, strerror(error));
    napi_throw_error(env, strerrorname_np(error) ?: "EUNKNOWN", text);
}

/* The watching thread. It reports each child once (EPOLLONESHOT). */
static void *watch(void *argument)
{
    struct starter *starter = argument;
    for (;;) {
        struct epoll_event event;
        int count = epoll_wait(starter->epoll, &event, 1, -1);
        if (count == -1 && errno != EINTR)
            return NULL;
        if (count != 1)
            continue;
        if (!event.data.ptr)
            return NULL;
        if (napi_call_threadsafe_function(starter->on_end, event.data.ptr, napi_tsfn_blocking) != napi_ok)
            return NULL;
    }
}

/* Runs on the JavaScript thread. */
static void tell_end(napi_env env, napi_value on_end, void *context, void *data)
{
    struct starter *starter = context;
    struct child *child = data;
    siginfo_t info = {0};
    /* Closing it also removes it from the epoll set. */
    close(child->pidfd);
    waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG);
    if (env && --starter->alive == 0)
        napi_unref_threadsafe_function(env, starter->on_end);
    if (env && on_end) {
        napi_value receiver, arguments[3], ignored;
        bool has_exited = info.si_code == CLD_EXITED;
        napi_get_undefined(env, &receiver);
        napi_create_int32(env, child->pid, &arguments[0]);
        napi_create_int32(env, has_exited ? info.si_status : -1, &arguments[1]);
        napi_create_int32(env, has_exited ? 0 : info.si_status, &arguments[2]);
        napi_call_function(env, receiver, on_end, 3, arguments, &ignored);
    }
    free(child);
}

static void end_watching(void *data)
{
    struct starter *starter = data;
    if (starter->is_watching) {
        uint64_t one = 1;
        if (write(starter->stop, &one, sizeof(one)) == sizeof(one))
            pthread_join(starter->thread, NULL);
    }
    close(starter->epoll);
    close(starter->stop);
    free(starter);
}

static bool start_watching(struct starter *starter)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    struct epoll_event stop = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_ctl(starter->epoll, EPOLL_CTL_ADD, starter->stop, &stop) == -1)
        return false;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    /* Other threads handle signals. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&starter->thread, &attributes, watch, starter);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    starter->is_watching = errno == 0;
    return starter->is_watching;
}

/* watchEnds(onEnd: (pid, exitCode | -1, signal | 0) => void): once, before the first start. */
static napi_value watch_ends(napi_env env, napi_callback_info info)
{
    napi_value argument, name;
    size_t count = 1;
    struct starter *starter = calloc(1, sizeof(*starter));
    if (!starter) {
        throw_errno(env, "watch", ENOMEM);
        return NULL;
    }
    starter->epoll = epoll_create1(EPOLL_CLOEXEC);
    starter->stop = eventfd(0, EFD_CLOEXEC);
    napi_create_string_utf8(env, "dormouse-start", NAPI_AUTO_LENGTH, &name);
    if (starter->epoll == -1 || starter->stop == -1 ||
        napi_get_cb_info(env, info, &count, &argument, NULL, NULL) != napi_ok ||
        napi_create_threadsafe_function(env, argument, NULL, name, 0, 1, NULL, NULL, starter, tell_end, &starter->on_end) != napi_ok ||
        napi_unref_threadsafe_function(env, starter->on_end) != napi_ok || !start_watching(starter) ||
        napi_set_instance_data(env, starter, NULL, NULL) != napi_ok ||
        napi_add_env_cleanup_hook(env, end_watching, starter) != napi_ok)
        throw_errno(env, "watch for ends", errno ? errno : EINVAL);
    return NULL;
}

/* Converts a JavaScript array of strings to argv or envp. Returns NULL when it is not one, or memory is short. */
static char **read_strings(napi_env env, napi_value array)
{
    uint32_t count;
    if (napi_get_array_length(env, array, &count) != napi_ok)
        return NULL;
    char **strings = calloc(count + 1, sizeof(*strings));
    for (uint32_t i = 0; strings && i < count; i++) {
        napi_value element;
        size_t length;
        if (napi_get_element(env, array, i, &element) != napi_ok ||
            napi_get_value_string_utf8(env, element, NULL, 0, &length) != napi_ok || !(strings[i] = malloc(length + 1)))
            goto failed;
        napi_get_value_string_utf8(env, element, strings[i], length + 1, NULL);
    }
    return strings;
failed:
    for (uint32_t i = 0; strings[i]; i++)
        free(strings[i]);
    free(strings);
    return NULL;
}

static void free_strings(char **strings)
{
    for (char **each = strings; each && *each; each++)
        free(*each);
    free(strings);
}

/* Both ends of every descriptor that the child gets. `theirs` are copies that we close after the start. */
struct stdio {
    int count;
    int ours[STDIO_MAX];
    int theirs[STDIO_MAX];
};

static void close_all(const int *descriptors, int count)
{
    for (int i = 0; i < count; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
}

static int open_theirs(int wanted, int *ours)
{
    int pair[2], from;
    *ours = -1;
    if (wanted >= 0)
        return fcntl(wanted, F_DUPFD_CLOEXEC, ABOVE_STDIO);
    if (wanted == NOTHING) {
        from = open("/dev/null", O_RDWR | O_CLOEXEC);
    } else {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1)
            return -1;
        *ours = pair[0];
        from = pair[1];
    }
    if (from == -1)
        return -1;
    int theirs = fcntl(from, F_DUPFD_CLOEXEC, ABOVE_STDIO);
    close(from);
    return theirs;
}

static int open_stdio(napi_env env, napi_value array, struct stdio *stdio)
{
    uint32_t count;
    if (napi_get_array_length(env, array, &count) != napi_ok || count > STDIO_MAX)
        return EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        napi_value element;
        int wanted;
        if (napi_get_element(env, array, i, &element) != napi_ok || napi_get_value_int32(env, element, &wanted) != napi_ok)
            return EINVAL;
        stdio->theirs[i] = open_theirs(wanted, &stdio->ours[i]);
        stdio->count = (int)i + 1;
        if (stdio->theirs[i] == -1)
            return errno;
    }
    return 0;
}

static int spawn_program(char **argv, char **envp, const char *cwd, bool is_detached, const struct stdio *stdio, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    /* sigfillset leaves out the signals that glibc reserves, and posix_spawn would leave those ignored. */
    memset(&all, 0xff, sizeof(all));
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int i = 0; i < stdio->count; i++)
        posix_spawn_file_actions_adddup2(&actions, stdio->theirs[i], i);
    if (cwd)
        posix_spawn_file_actions_addchdir_np(&actions, cwd);
    if (is_detached)
        flags |= POSIX_SPAWN_SETSID;
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, flags);
    int error = posix_spawnp(pid, argv[0], &actions, &attributes, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* Pre: the child is ours and has not been reaped. */
static int watch_child(napi_env env, struct starter *starter, pid_t pid)
{
    struct child *child = malloc(sizeof(*child));
    if (!child)
        return ENOMEM;
    *child = (struct child){.pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = child};
    if (child->pidfd == -1 || epoll_ctl(starter->epoll, EPOLL_CTL_ADD, child->pidfd, &event) == -1) {
        int error = errno;
        if (child->pidfd != -1)
            close(child->pidfd);
        free(child);
        return error;
    }
    if (starter->alive++ == 0)
        napi_ref_threadsafe_function(env, starter->on_end);
    return 0;
}

static napi_value describe(napi_env env, pid_t pid, const struct stdio *stdio)
{
    napi_value result, number;
    napi_create_array_with_length(env, (size_t)stdio->count + 1, &result);
    napi_create_int32(env, pid, &number);
    napi_set_element(env, result, 0, number);
    for (int i = 0; i < stdio->count; i++) {
        napi_create_int32(env, stdio->ours[i], &number);
        napi_set_element(env, result, (uint32_t)i + 1, number);
    }
    return result;
}

/*
 * start(argv, envp: string[] | null for ours, cwd: string | null, isDetached, stdio: (descriptor | -1 nothing | -2
 * pipe)[]): [pid, ...our ends or -1]
 */
static napi_value start(napi_env env, napi_callback_info info)
{
    napi_value arguments[5], result = NULL;
    size_t count = 5, length;
    struct starter *starter = NULL;
    bool is_detached = false;
    char cwd[4096];
    struct stdio stdio = {0};
    pid_t pid = -1;
    if (napi_get_instance_data(env, (void **)&starter) != napi_ok || !starter ||
        napi_get_cb_info(env, info, &count, arguments, NULL, NULL) != napi_ok || count < 5 ||
        napi_get_value_bool(env, arguments[3], &is_detached) != napi_ok) {
        napi_throw_type_error(env, "EINVAL", "expected argv, envp, cwd, isDetached, stdio, after watchEnds");
        return NULL;
    }
    bool has_cwd = napi_get_value_string_utf8(env, arguments[2], cwd, sizeof(cwd), &length) == napi_ok;
    napi_valuetype envp_type = napi_undefined;
    napi_typeof(env, arguments[1], &envp_type);
    char **argv = read_strings(env, arguments[0]), **envp = read_strings(env, arguments[1]);
    int error = !argv || !argv[0] || (!envp && envp_type != napi_null) || (has_cwd && length >= sizeof(cwd) - 1) ? EINVAL : open_stdio(env, arguments[4], &stdio);
    if (error == 0)
        error = spawn_program(argv, envp ?: environ, has_cwd ? cwd : NULL, is_detached, &stdio, &pid);
    if (error == 0 && (error = watch_child(env, starter, pid)) != 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    close_all(stdio.theirs, stdio.count);
    if (error != 0) {
        close_all(stdio.ours, stdio.count);
        throw_errno(env, argv && argv[0] ? argv[0] : "start", error);
    } else {
        result = describe(env, pid, &stdio);
    }
    free_strings(argv);
    free_strings(envp);
    return result;
}

NAPI_MODULE_INIT()
{
    static const struct { const char *name; napi_callback call; } functions[] = {
        {"watchEnds", watch_ends},
        {"start", start},
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        napi_value function;
        if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &function) != napi_ok ||
            napi_set_named_property(env, exports, functions[i].name, function) != napi_ok)
            return NULL;
    }
    return exports;
}
