#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

/* The list of lower layers is the longest record. */
#define CONFIG_MAX_BYTES (256 * 1024)

/* Ends this process when the other end of `watched` is closed. */
static void wait_to_read(int fd, int watched)
{
    struct pollfd waiting[] = {{.fd = fd, .events = POLLIN}, {.fd = watched}};
    while (poll(waiting, 2, -1) == -1)
        if (errno != EINTR)
            fail("poll");
    if (waiting[1].revents)
        _exit(1);
}

char *config_read(int fd, int watched, size_t *length)
{
    char *buffer = malloc(CONFIG_MAX_BYTES);
    if (!buffer)
        fail("config");
    *length = 0;
    for (;;) {
        wait_to_read(fd, watched);
        ssize_t got = read(fd, buffer + *length, CONFIG_MAX_BYTES - *length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            fail("config");
        if (got == 0)
            refuse("config is incomplete");
        *length += (size_t)got;
        /* The end is an empty record: the engine may take a moment to close the pipe. */
        if (*length >= 2 && !buffer[*length - 1] && !buffer[*length - 2]) {
            *length -= 1;
            return buffer;
        }
        if (*length == CONFIG_MAX_BYTES)
            refuse("config is too long");
    }
}

static void append(const char **list, size_t *count, const char *value, const char *key)
{
    if (*count == MAX_LIST)
        refuse("config: too many %s", key);
    list[(*count)++] = value;
}

static int64_t number(const char *key, const char *value)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(value, &end, 10);
    if (errno || end == value || *end || parsed < 0)
        refuse("config: %s is not a valid number", key);
    return parsed;
}

static void assign(struct config *config, const char *key, const char *value)
{
    const struct { const char *key; const char **field; } texts[] = {
        {"hostname", &config->hostname}, {"root", &config->root},         {"overlay", &config->overlay},
        {"tools", &config->tools},       {"link", &config->link},         {"memory", &config->memory},
        {"kdat", &config->kdat},         {"pid_file", &config->pid_file}, {"end_file", &config->end_file},
        {"volumes", &config->volumes},   {"limits", &config->limits},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (!strcmp(key, texts[i].key)) {
            *texts[i].field = value;
            return;
        }
    if (!strcmp(key, "agent"))
        append(config->agent, &config->agent_count, value, key);
    else if (!strcmp(key, "env"))
        append(config->env, &config->env_count, value, key);
    else if (!strcmp(key, "volume"))
        append(config->volume, &config->volume_count, value, key);
    else if (!strcmp(key, "monotonic_ns"))
        config->monotonic_ns = number(key, value);
    else if (!strcmp(key, "boottime_ns"))
        config->boottime_ns = number(key, value);
    else if (!strcmp(key, "last_pid"))
        config->last_pid = number(key, value);
    else
        refuse("config: unknown key %s", key);
}

struct config config_parse(const char *received, size_t length)
{
    struct config config = {0};
    char *text = malloc(length + 1);
    if (!text)
        fail("config");
    memcpy(text, received, length);
    text[length] = '\0';
    for (char *at = text; at < text + length; at += strlen(at) + 1) {
        char *equals = strchr(at, '=');
        if (!equals)
            refuse("config: a record without =");
        char *value = equals + 1;
        *equals = '\0';
        assign(&config, at, value);
        at = value;
    }
    if (!config.hostname || !config.root || !config.overlay || !config.tools || !config.pid_file ||
        !config.end_file)
        refuse("config is incomplete");
    return config;
}
