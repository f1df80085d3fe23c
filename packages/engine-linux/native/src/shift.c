/*
 * dormouse-shift BASE COUNT -- COMMAND...
 * Runs a command as root of a user namespace whose ids start at BASE outside. Unpacking a template this way gives files
 * the owners, setuid bits and capabilities that sandboxes of that range see.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "namespaces.h"
#include "report.h"

static uint32_t id_argument(const char *text)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end || value == 0 || value > UINT32_MAX / 2)
        refuse("not an id: %s", text);
    return (uint32_t)value;
}

int main(int argc, char **argv)
{
    if (argc < 5 || strcmp(argv[3], "--"))
        refuse("usage: dormouse-shift BASE COUNT -- COMMAND...");
    uint32_t base = id_argument(argv[1]), count = id_argument(argv[2]);

    int mapped[2];
    CHECK(pipe(mapped), "pipe");
    pid_t child = fork_into(CLONE_NEWUSER, 0);
    if (child == 0) {
        char go;
        close(mapped[1]);
        /* An interrupted template build must not leave an unpacking tar behind. */
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
        if (read(mapped[0], &go, 1) != 1)
            _exit(1);
        close(mapped[0]);
        become_inner_root();
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
        execvp(argv[4], argv + 4);
        fail("%s", argv[4]);
    }
    map_ids(child, base, count);
    CHECK(write(mapped[1], "1", 1), "start");
    int status;
    while (waitpid(child, &status, 0) == -1)
        if (errno != EINTR)
            fail("wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
