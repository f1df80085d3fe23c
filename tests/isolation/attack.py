"""Imported by the kernels that attack: says how the kernel answers, by the name of the error or as the value."""

import ctypes
import errno
import os
import platform
import resource

_libc = ctypes.CDLL(None, use_errno=True)
_IS_ARM = platform.machine() == "aarch64"

# Name: number on x86_64, number on aarch64. From 424 on all architectures share one.
_NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "chroot": (161, 51),
    "clock_adjtime": (305, 266), "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105),
    "io_setup": (206, 0), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_uring_setup": (425, 425),
    "ioprio_set": (251, 30), "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104),
    "keyctl": (250, 219), "listmount": (458, 458), "lookup_dcookie": (212, 18), "mbind": (237, 235),
    "memfd_create": (319, 279), "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429),
    "move_pages": (279, 239), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428),
    "open_tree_attr": (467, 467), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "reboot": (169, 142), "request_key": (249, 218), "setdomainname": (171, 162),
    "sethostname": (170, 161), "setns": (308, 268), "settimeofday": (164, 170), "shmget": (29, 194),
    "statmount": (457, 457), "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116),
    "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282), "vhangup": (153, 58),
}


def call(name, *arguments):
    """A system call as it is, without libc's opinion of it."""
    number = _NUMBERS[name][_IS_ARM]
    return raw(number, *arguments)


def raw(number, *arguments):
    words = [ctypes.c_char_p(a) if isinstance(a, bytes) else a if hasattr(a, "_type_") or isinstance(
        a, (ctypes.Array, ctypes.Structure)) else ctypes.c_long(a) for a in arguments]
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(number), *words)
    return result if result != -1 else errno.errorcode[ctypes.get_errno()]


def tries(action):
    """What becomes of it: 'EACCES', or what it returns."""
    try:
        return action()
    except OSError as error:
        return errno.errorcode[error.errno]


def reads(path, size=4096):
    """The first bytes of a file; '' is what an empty or masked file gives."""
    def read():
        with open(path, "rb", buffering=0) as file:
            return file.read(size).decode("latin-1")
    return tries(read)


def writes(path, data=b"x"):
    """Opens what exists for writing, and writes: no O_CREAT, no O_TRUNC."""
    def write():
        fd = os.open(path, os.O_WRONLY)
        try:
            return os.write(fd, data)
        finally:
            os.close(fd)
    return tries(write)


def limits(which, value):
    """Sets a resource limit. Python says ValueError for the kernel's EPERM here."""
    try:
        return tries(lambda: resource.setrlimit(which, (value, value)))
    except ValueError:
        return "EPERM"


def in_child(action):
    """Runs it in a forked child, for what would change the kernel process. Returns its repr, or how the child died."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(sink, repr(tries(action)).encode())
        except BaseException as error:
            os.write(sink, repr(error).encode())
        os._exit(0)
    os.close(sink)
    with os.fdopen(source) as file:
        text = file.read()
    status = os.waitpid(pid, 0)[1]
    return text if status == 0 else f"signal {os.WTERMSIG(status)}"
