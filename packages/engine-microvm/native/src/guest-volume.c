/* Volumes in the guest: mounted by FUSE, with a process each that relays between the kernel and the link. */
#include "guest-volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "volume-relay.h"
#include "volume-requests.h"

static pid_t agent_pid, relays[VOLUMES_MAX];

void volumes_belong_to(pid_t agent)
{
    agent_pid = agent;
}

static struct sockaddr_un address_of(int number)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/.dormouse/run/volume-%d.sock", number);
    return address;
}

static int listen_for(int number)
{
    struct sockaddr_un address = address_of(number);
    unlink(address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0077);
    bool is_bound = fd != -1 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 4) == 0;
    umask(mask);
    if (!is_bound && fd != -1) {
        close(fd);
        return -1;
    }
    return fd;
}

int connect_volume(int number)
{
    struct sockaddr_un address = address_of(number);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd != -1 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == -1) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Whether a program has mapped something below a path, which a mount there would hide. */
static bool is_in_use(const char *path)
{
    DIR *processes = opendir("/proc");
    char line[PATH_MAX + 256];
    size_t length = strlen(path);
    bool is_found = false;
    for (struct dirent *entry; processes && !is_found && (entry = readdir(processes));) {
        snprintf(line, sizeof(line), "/proc/%s/maps", entry->d_name);
        FILE *maps = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(line, "r") : NULL;
        while (maps && !is_found && fgets(line, sizeof(line), maps)) {
            const char *file = strchr(line, '/');
            is_found = file && strncmp(file, path, length) == 0 && file[length] == '/';
        }
        if (maps)
            fclose(maps);
    }
    if (processes)
        closedir(processes);
    return is_found;
}

static int enter_part(int parent, const char *part)
{
    if (mkdirat(parent, part, 0755) == -1 && errno != EEXIST)
        return -1;
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        /* Not inside another mount, such as /dev, /.dormouse or a volume. */
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    return (int)syscall(SYS_openat2, parent, part, &how, sizeof(how));
}

/* Makes the directory at the path, and those above it, the current one. Follows no links. */
static int enter_path(const char *path)
{
    char copy[PATH_MAX];
    if (path[0] != '/' || strlen(path) >= sizeof(copy))
        return errno = EINVAL, -1;
    strcpy(copy, path + 1);
    int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (char *rest, *part = strtok_r(copy, "/", &rest); at != -1 && part; part = strtok_r(NULL, "/", &rest)) {
        int next = enter_part(at, part);
        int error = errno;
        close(at);
        errno = error;
        at = next;
    }
    return at == -1 ? -1 : fchdir(at);
}

static int enter_agents_mounts(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", agent_pid);
    int mounts = open(path, O_RDONLY | O_CLOEXEC);
    return mounts == -1 ? -1 : setns(mounts, CLONE_NEWNS);
}

static int mount_fuse(int fuse, bool is_read_only, const char *path)
{
    char options[160];
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other,max_read=%u",
             fuse, IO_MAX_BYTES);
    if (enter_agents_mounts() == -1 || enter_path(path) == -1)
        return -1;
    unsigned long flags = MS_NOSUID | MS_NODEV | (is_read_only ? MS_RDONLY : 0);
    return mount("volume", ".", "fuse", flags, options);
}

static void run_relay(int listener, int said, bool is_read_only, const char *path)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    int error = fuse == -1 || mount_fuse(fuse, is_read_only, path) == -1 ? errno : 0;
    /* The port and the streams belong to PID 1. */
    for (int fd = 3; fd < 1024; fd++)
        if (fd != fuse && fd != listener && fd != said)
            close(fd);
    if (write(said, &error, sizeof(error)) != sizeof(error) || error != 0)
        _exit(1);
    close(said);
    if (chdir("/") == 0)
        relay_volume(fuse, listener);
    _exit(1);
}

int mount_volume(int number, bool is_read_only, const char *path)
{
    if (number < 0 || number >= VOLUMES_MAX || relays[number] != 0)
        return errno = EINVAL, -1;
    if (is_in_use(path))
        return errno = EBUSY, -1;
    int said[2], listener = listen_for(number);
    if (listener == -1 || pipe2(said, O_CLOEXEC) == -1)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        run_relay(listener, said[1], is_read_only, path);
    close(said[1]);
    close(listener);
    int error = EIO;
    if (pid == -1 || read(said[0], &error, sizeof(error)) != sizeof(error))
        error = pid == -1 ? EAGAIN : EIO;
    close(said[0]);
    if (error == 0)
        relays[number] = pid;
    return errno = error, error == 0 ? 0 : -1;
}

int unmount_volume(int number, const char *path)
{
    if (number < 0 || number >= VOLUMES_MAX || relays[number] == 0)
        return errno = EINVAL, -1;
    kill(relays[number], SIGKILL);
    waitpid(relays[number], NULL, 0);
    relays[number] = 0;
    pid_t pid = fork();
    if (pid == 0) {
        bool is_done = enter_agents_mounts() == 0 && umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0;
        _exit(is_done ? 0 : errno);
    }
    int status = 0;
    if (pid == -1 || waitpid(pid, &status, 0) == -1)
        return -1;
    /* One whose place was renamed stays where it is, and fails every call. */
    return 0;
}
