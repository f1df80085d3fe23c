#include "load-filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool read_open(int fd, struct sock_fprog *program)
{
    struct stat status;
    if (fstat(fd, &status) == -1)
        return false;
    size_t size = (size_t)status.st_size;
    errno = EINVAL;
    if (size == 0 || size % sizeof(struct sock_filter) || size / sizeof(struct sock_filter) > BPF_MAXINSNS)
        return false;
    void *code = malloc(size);
    if (!code || read(fd, code, size) != (ssize_t)size) {
        free(code);
        return false;
    }
    *program = (struct sock_fprog){.len = (unsigned short)(size / sizeof(struct sock_filter)), .filter = code};
    return true;
}

bool filter_read(const char *path, struct sock_fprog *program)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return false;
    bool is_read = read_open(fd, program);
    int error = errno;
    close(fd);
    errno = error;
    return is_read;
}

bool filter_load(const struct sock_fprog *program)
{
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program) == 0;
}
