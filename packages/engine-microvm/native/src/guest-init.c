/* PID 1 of the guest: loads drivers, mounts the disk, starts the agent and relays between it and the host. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "guest-kept.h"
#include "guest-network.h"
#include "guest-volume.h"
#include "relay.h"

#define PORT_NAME "dormouse"
#define DEVICE_TIMEOUT_MS 10000
#define READY_FD 3
#define FILES_MAX 65536

static void fail(const char *what)
{
    fprintf(stderr, "dormouse: %s: %s\n", what, strerror(errno));
    sync();
    reboot(RB_AUTOBOOT);
    _exit(1);
}

static void must(int outcome, const char *what)
{
    if (outcome == -1)
        fail(what);
}

static void mount_at(const char *type, const char *target, unsigned long flags, const char *options)
{
    mkdir(target, 0755);
    must(mount(type, target, type, flags, options), target);
}

/* The list is in the order in which they depend on each other. A guest starts without those whose name follows a dash. */
static void load_modules(void)
{
    FILE *list = fopen("/modules/order", "r");
    if (!list)
        fail("/modules/order");
    char line[200], path[256];
    while (fgets(line, sizeof(line), list)) {
        line[strcspn(line, "\n")] = 0;
        bool is_optional = line[0] == '-';
        snprintf(path, sizeof(path), "/modules/%s", line + is_optional);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        must(fd, path);
        if (syscall(SYS_finit_module, fd, "", 0) == -1 && errno != EEXIST && !is_optional)
            fail(path);
        close(fd);
    }
    fclose(list);
}

static void wait_for(const char *path)
{
    for (int waited = 0; access(path, F_OK) == -1; waited++) {
        if (waited == DEVICE_TIMEOUT_MS)
            fail(path);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* The port's number depends on the order of devices, its name does not. */
static int open_port(void)
{
    for (int waited = 0; waited < DEVICE_TIMEOUT_MS; waited++) {
        DIR *ports = opendir("/sys/class/virtio-ports");
        for (struct dirent *entry; ports && (entry = readdir(ports));) {
            char path[512], name[64] = "";
            snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name", entry->d_name);
            FILE *file = fopen(path, "r");
            bool is_read = file && fgets(name, sizeof(name), file);
            if (file)
                fclose(file);
            if (!is_read || strncmp(name, PORT_NAME, strlen(PORT_NAME)) != 0)
                continue;
            snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
            closedir(ports);
            int port = open(path, O_RDWR | O_CLOEXEC);
            must(port, path);
            return port;
        }
        if (ports)
            closedir(ports);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail("the port of the host");
    return -1;
}

static void enter_root(void)
{
    wait_for("/dev/vda");
    mkdir("/root", 0755);
    must(mount("/dev/vda", "/root", "ext4", MS_NOATIME, ""), "/dev/vda");
    must(chdir("/root"), "/root");
    const char *moved[] = {"dev", "proc", "sys"};
    for (int i = 0; i < 3; i++) {
        char from[16];
        snprintf(from, sizeof(from), "/%s", moved[i]);
        mkdir(moved[i], 0755);
        must(mount(from, moved[i], NULL, MS_MOVE, NULL), moved[i]);
    }
    must(mount(".", "/", NULL, MS_MOVE, NULL), "root");
    must(chroot("."), "chroot");
    must(chdir("/"), "/");
}

static void mount_rest(void)
{
    mount_at("devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666");
    mount_at("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777");
    mount_at("cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    wait_for("/dev/vdb");
    mkdir("/.dormouse", 0755);
    must(mount("/dev/vdb", "/.dormouse", "ext4", MS_RDONLY | MS_NOSUID | MS_NODEV, ""), "/dev/vdb");
    mount_at("tmpfs", "/.dormouse/run", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755");
    const char *links[][2] = {{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"}, {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"}};
    for (int i = 0; i < 4; i++)
        if (symlink(links[i][0], links[i][1]) == -1 && errno != EEXIST)
            fail(links[i][1]);
}

/*
 * The agent is the first process of a pid namespace. Kernel rule: no process inside can kill that one, so `kill -9 -1` of
 * the sandbox's root reaches neither the agent nor us.
 */
static pid_t fork_agent(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);
    must(pid, "clone");
    if (pid == 0 && (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1 ||
                     mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == -1))
        _exit(126);
    return pid;
}

/* Programs look for their limits in the root. Kernel rule: in a new cgroup namespace that is the cgroup we are in. */
static void show_own_cgroup(void)
{
    if (unshare(CLONE_NEWCGROUP) == -1 || umount2("/sys/fs/cgroup", MNT_DETACH) == -1 ||
        mount("cgroup2", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == -1)
        _exit(126);
}

static pid_t start_agent(void)
{
    int ready[2];
    must(pipe2(ready, O_CLOEXEC), "pipe");
    pid_t pid = fork_agent();
    if (pid == 0) {
        /* The kernel gives us what it does not know of its command line. Files of an image may have no Python. */
        char *python = getenv("DORMOUSE_PYTHON");
        char *argv[] = {python ? python : "/usr/bin/python3", "-I", "-B", "-S", "/.dormouse/guest/dormouse_agent", NULL};
        char *env[] = {
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/root",
            "DORMOUSE_AGENT_SOCKET=/.dormouse/run/agent.sock", "DORMOUSE_READY_FD=3", NULL,
        };
        join_cgroup();
        show_own_cgroup();
        join_programs_cgroup();
        setsid();
        /* As in burrows of processes, where it bounds how many descriptors a process can hoard. */
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){FILES_MAX, FILES_MAX});
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        /* The console is the host's: programs inside get none of our descriptors. */
        if (null == -1 || dup2(null, 0) == -1 || dup2(null, 1) == -1 || dup2(null, 2) == -1)
            _exit(126);
        if (ready[1] == READY_FD ? fcntl(READY_FD, F_SETFD, 0) == -1 : dup2(ready[1], READY_FD) == -1)
            _exit(126);
        execve(argv[0], argv, env);
        _exit(127);
    }
    close(ready[1]);
    char byte;
    if (read(ready[0], &byte, 1) != 1) {
        errno = ECHILD;
        fail("the agent ended before it was ready");
    }
    close(ready[0]);
    return pid;
}

int main(void)
{
    mount_at("devtmpfs", "/dev", MS_NOSUID, "mode=0755");
    mount_at("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mount_at("sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    int console = open("/dev/console", O_RDWR);
    for (int fd = 0; console != -1 && fd < 3; fd++)
        dup2(console, fd);
    load_modules();
    enter_root();
    mount_rest();
    must(guest_network_up(), "network");
    make_cgroup();
    int port = open_port();
    pid_t agent = start_agent();
    must(keep_files(agent), "files that stay");
    volumes_belong_to(agent);
    control_belongs_to(agent);
    relay(port, agent);
    sync();
    reboot(RB_AUTOBOOT);
    return 1;
}
