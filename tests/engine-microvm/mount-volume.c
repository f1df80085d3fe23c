/*
 * mount-volume MOUNT_POINT SOCKET: what PID 1 of a guest does with a volume, in a mount namespace of its own on this
 * machine. Prints a line when the volume is mounted; its requests wait for a connection to the socket.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <signal.h>
#include <unistd.h>

#include "volume-relay.h"
#include "volume-requests.h"

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char options[160];
    if (argc != 3 || strlen(argv[2]) >= sizeof(address.sun_path))
        return 2;
    strcpy(address.sun_path, argv[2]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other,max_read=%u",
             fuse, IO_MAX_BYTES);
    if (unshare(CLONE_NEWNS) == -1 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == -1 ||
        mount("volume", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) == -1 ||
        bind(listener, (struct sockaddr *)&address, sizeof(address)) == -1 || listen(listener, 4) == -1) {
        perror("mount-volume");
        return 1;
    }
    puts("mounted");
    fflush(stdout);
    relay_volume(fuse, listener);
}
