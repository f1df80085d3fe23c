/*
 * dormouse-unpack BASE COUNT MAX_BYTES MAX_ENTRIES [gunzip | DECOMPRESSOR ARGUMENT...]
 *
 * Unpacks an image layer from standard input into the working directory, which is empty and belongs to BASE, and prints
 * the SHA-256 of the archive.
 *
 * The archive comes from anyone. The process that reads it is root of a user namespace whose ids start at BASE, its root
 * is the target directory, and it has neither a network nor a way to make devices. Decompressing and hashing happen in
 * processes without privileges. Only setting overlayfs's mark on directories needs real root: that is done at the end,
 * without following links.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "capabilities.h"
#include "gunzip.h"
#include "namespaces.h"
#include "report.h"
#include "unpack-entry.h"

#define PIPE_BYTES (1024 * 1024)
#define NOBODY 65534
#define MARKS_MAX (64u * 1024 * 1024)

static uint64_t argument(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end || value == 0)
        refuse("not a number: %s", text);
    return value;
}

static void make_pipe(int ends[2])
{
    CHECK(pipe2(ends, O_CLOEXEC), "pipe");
    /* More room means fewer switches between the processes; a refusal costs only speed. */
    fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
}

/* Forks a process without privileges that reads `from` and writes `to`. Returns 0 in that process. */
static pid_t fork_filter(uid_t uid, int from, int to)
{
    pid_t child = CHECK(fork(), "fork");
    if (child > 0)
        return child;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    CHECK(dup2(from, STDIN_FILENO), "stdin");
    CHECK(dup2(to, STDOUT_FILENO), "stdout");
    CHECK(chdir("/"), "chdir");
    CHECK(setresgid(uid, uid, uid), "setresgid");
    CHECK(setresuid(uid, uid, uid), "setresuid");
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    return 0;
}

static pid_t start_gunzip(uid_t uid, int from, int to)
{
    pid_t child = fork_filter(uid, from, to);
    if (child > 0)
        return child;
    /* An end of its own pipe would hide from it that the reader has ended. */
    CHECK(close_range(STDERR_FILENO + 1, ~0u, 0), "close_range");
    gunzip(STDIN_FILENO, STDOUT_FILENO);
    exit(0);
}

/* Starts a program; `otherwise` where it is not installed. */
static pid_t start_filter(char **argv, char **otherwise, uid_t uid, int from, int to)
{
    pid_t child = fork_filter(uid, from, to);
    if (child > 0)
        return child;
    execvp(argv[0], argv);
    if (otherwise)
        execvp(otherwise[0], otherwise);
    fail("%s", argv[0]);
}

struct unpacker {
    uint32_t base, count;
    struct unpack_limits limits;
    int archive, copy, marks;
};

static const int KEPT[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_SETFCAP, CAP_MKNOD};

static pid_t start_unpacker(const struct unpacker *it)
{
    int mapped[2];
    CHECK(pipe2(mapped, O_CLOEXEC), "pipe");
    pid_t child = fork_into(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, 0);
    if (child > 0) {
        map_ids(child, it->base, it->count);
        CHECK(write(mapped[1], "1", 1), "start");
        close(mapped[0]);
        close(mapped[1]);
        return child;
    }
    char go;
    close(mapped[1]);
    if (read(mapped[0], &go, 1) != 1)
        _exit(1);
    become_inner_root();
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    CHECK(chroot("."), "chroot");
    if (!keep_capabilities(capability_mask(KEPT, sizeof(KEPT) / sizeof(*KEPT))))
        fail("drop capabilities");
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    tar_open(it->archive, it->copy);
    unpack_all(it->limits, it->marks);
    exit(0);
}

static void require_success(pid_t child, const char *name)
{
    int status;
    while (waitpid(child, &status, 0) == -1)
        if (errno != EINTR)
            fail("wait for %s", name);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    if (WIFSIGNALED(status))
        refuse("%s was ended by signal %d", name, WTERMSIG(status));
    exit(1); /* It has said why. */
}

static char *read_all(int fd, size_t limit, size_t *length)
{
    size_t room = 4096;
    char *text = malloc(room);
    *length = 0;
    for (;;) {
        if (!text)
            refuse("out of memory");
        ssize_t count = CHECK(read(fd, text + *length, room - *length), "read");
        if (count == 0)
            return text;
        *length += (size_t)count;
        if (*length == room) {
            if (room >= limit)
                refuse("the archive has too many deleted directories");
            room *= 2;
            text = realloc(text, room);
        }
    }
}

/* The unpacker chose these paths, so they are resolved below the target and through no link. */
static void mark_opaque(int target, const char *paths, size_t length)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    for (size_t at = 0; at < length; at += strlen(paths + at) + 1) {
        int fd = (int)syscall(SYS_openat2, target, paths + at, &how, sizeof(how));
        /* Behind a link of the layer, the name below is hidden by that link. */
        if (fd == -1 && (errno == ELOOP || errno == ENOENT || errno == ENOTDIR))
            continue;
        CHECK(fd, "open %.200s", paths + at);
        CHECK(fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0), "mark %.200s", paths + at);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5)
        refuse("usage: dormouse-unpack BASE COUNT MAX_BYTES MAX_ENTRIES [gunzip | DECOMPRESSOR ARGUMENT...]");
    uint32_t base = (uint32_t)argument(argv[1]);
    struct unpacker it = {
        .base = base,
        .count = (uint32_t)argument(argv[2]),
        .limits = {argument(argv[3]), argument(argv[4])},
    };
    int target = CHECK(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open the target");
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
    int plain[2] = {STDIN_FILENO, -1}, copy[2], sum[2], marks[2];
    make_pipe(copy);
    make_pipe(sum);
    make_pipe(marks);
    pid_t decompressor = 0;
    if (argc > 5) {
        make_pipe(plain);
        uid_t nobody = base + NOBODY;
        decompressor = strcmp(argv[5], "gunzip") == 0 ? start_gunzip(nobody, STDIN_FILENO, plain[1])
                                                      : start_filter(argv + 5, NULL, nobody, STDIN_FILENO, plain[1]);
        close(plain[1]);
    }
    /* openssl uses the processor's instructions for SHA-256 and takes a seventh of the time. */
    char *openssl[] = {"openssl", "dgst", "-sha256", "-r", NULL}, *sha256sum[] = {"sha256sum", "--binary", NULL};
    pid_t hasher = start_filter(openssl, sha256sum, base + NOBODY, copy[0], sum[1]);
    close(copy[0]);
    close(sum[1]);
    it.archive = plain[0];
    it.copy = copy[1];
    it.marks = marks[1];
    pid_t unpacker = start_unpacker(&it);
    close(plain[0]);
    close(copy[1]);
    close(marks[1]);
    size_t length, digest_length;
    char *opaque = read_all(marks[0], MARKS_MAX, &length);
    char *digest = read_all(sum[0], 4096, &digest_length);
    require_success(unpacker, "unpacking");
    if (decompressor)
        require_success(decompressor, argv[5]);
    require_success(hasher, "hashing");
    if (digest_length < 64)
        refuse("no digest of the archive was printed");
    mark_opaque(target, opaque, length);
    printf("%.64s\n", digest);
    return 0;
}
