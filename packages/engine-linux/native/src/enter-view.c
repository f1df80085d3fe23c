#include "enter-view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capabilities.h"
#include "namespaces.h"
#include "report.h"
#include "show-files.h"

static noreturn void exit_like(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) == -1)
        if (errno != EINTR)
            fail("wait");
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void enter_view(const struct view *view)
{
    int mapped[2];
    CHECK(pipe2(mapped, O_CLOEXEC), "pipe");
    pid_t child = fork_into(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, 0);
    if (child > 0) {
        map_ids(child, (uint32_t)number(view->base), (uint32_t)number(view->count));
        CHECK(write(mapped[1], "1", 1), "start");
        /* The child is the only reader of the input. */
        close(STDIN_FILENO);
        exit_like(child);
    }
    char go;
    close(mapped[1]);
    if (read(mapped[0], &go, 1) != 1)
        _exit(1);
    become_inner_root();
    CHECK(prctl(PR_SET_PDEATHSIG, view->cleans_up ? SIGTERM : SIGKILL), "pdeathsig");
    CHECK(fchdir(view->directory), "enter view");
    CHECK(chroot("."), "chroot");
    close(view->directory);
    if (!keep_capabilities(capability_mask(view->kept, view->kept_count)))
        fail("drop capabilities");
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    bound_self(view->cpu_seconds);
}
