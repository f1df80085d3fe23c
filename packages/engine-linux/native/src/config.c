#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

/* The list of lower layers is the longest record. */
#define CONFIG_MAX_BYTES (256 * 1024)

static char *read_all(int fd, size_t *length)
{
    char *buffer = malloc(CONFIG_MAX_BYTES + 1);
    if (!buffer)
        fail("config");
    *length = 0;
    for (;;) {
        ssize_t got = read(fd, buffer + *length, CONFIG_MAX_BYTES - *length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            fail("config");
        if (got == 0)
            break;
        *length += (size_t)got;
        if (*length == CONFIG_MAX_BYTES)
            refuse("config is too long");
    }
    buffer[*length] = '\0';
    return buffer;
}

static void append(const char **list, size_t *count, const char *value, const char *key)
{
    if (*count == MAX_LIST)
        refuse("config: too many %s", key);
    list[(*count)++] = value;
}

static int64_t number(const char *key, const char *value, int64_t min)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(value, &end, 10);
    if (errno || end == value || *end || parsed < min)
        refuse("config: %s is not a valid number", key);
    return parsed;
}

static void assign(struct config *config, const char *key, const char *value)
{
    const struct { const char *key; const char **field; } texts[] = {
        {"hostname", &config->hostname}, {"root", &config->root},         {"overlay", &config->overlay},
        {"tools", &config->tools},       {"link", &config->link},         {"filters", &config->filters},
        {"memory", &config->memory},     {"kdat", &config->kdat},         {"pid_file", &config->pid_file},
        {"end_file", &config->end_file}, {"volumes", &config->volumes},   {"limits", &config->limits},
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
    else if (!strcmp(key, "uid_base"))
        config->uid_base = (uint32_t)number(key, value, 1);
    else if (!strcmp(key, "uid_count"))
        config->uid_count = (uint32_t)number(key, value, 1);
    else if (!strcmp(key, "monotonic_ns"))
        config->monotonic_ns = number(key, value, 0);
    else if (!strcmp(key, "boottime_ns"))
        config->boottime_ns = number(key, value, 0);
    else if (!strcmp(key, "last_pid"))
        config->last_pid = number(key, value, 0);
    else
        refuse("config: unknown key %s", key);
}

struct config config_read(int fd)
{
    struct config config = {0};
    size_t length;
    char *text = read_all(fd, &length);
    for (char *at = text; at < text + length; at += strlen(at) + 1) {
        char *equals = strchr(at, '=');
        if (!equals)
            refuse("config: a record without =");
        char *value = equals + 1;
        *equals = '\0';
        assign(&config, at, value);
        at = value;
    }
    if (!config.hostname || !config.root || !config.overlay || !config.tools || !config.filters ||
        !config.pid_file || !config.end_file || !config.uid_base || !config.uid_count)
        refuse("config is incomplete");
    return config;
}
