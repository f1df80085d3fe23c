import { describe, expect, test } from 'vitest'
import { EVERYONE, useAttackers } from './attackers.ts'

const attackers = await useAttackers()

/** Title, expression, and the answer that root and user get. */
type Attempt = readonly [title: string, expression: string, answer: string]

const HOST_AFFAIRS: readonly Attempt[] = [
  ['mount a tmpfs', 'call("mount", b"none", b"/mnt", b"tmpfs", 0, 0)', 'EPERM'],
  ['mount a fresh proc', 'call("mount", b"proc", b"/mnt", b"proc", 0, 0)', 'EPERM'],
  ['mount a cgroup hierarchy', 'call("mount", b"none", b"/mnt", b"cgroup2", 0, 0)', 'EPERM'],
  ['bind the root elsewhere', 'call("mount", b"/", b"/mnt", 0, 0x1000, 0)', 'EPERM'],
  ['mount over the tools', 'call("mount", b"none", b"/.dormouse", b"tmpfs", 0, 0)', 'EPERM'],
  ['make /proc/sys writable', 'call("mount", 0, b"/proc/sys", 0, 0x1020, 0)', 'EPERM'],
  ['make /.dormouse writable', 'call("mount", 0, b"/.dormouse", 0, 0x1020, 0)', 'EPERM'],
  ['unmount a mask', 'call("umount2", b"/proc/kcore", 2)', 'EPERM'],
  ['unmount /.dormouse', 'call("umount2", b"/.dormouse", 2)', 'EPERM'],
  ['pivot_root', 'call("pivot_root", b"/", b"/mnt")', 'EPERM'],
  ['open_tree', 'call("open_tree", -100, b"/", 1)', 'EPERM'],
  ['open_tree_attr', 'call("open_tree_attr", -100, b"/", 1, 0, 0)', 'ENOSYS'],
  ['move_mount', 'call("move_mount", -100, b"/proc", -100, b"/mnt", 0)', 'EPERM'],
  ['fsopen', 'call("fsopen", b"tmpfs", 0)', 'EPERM'],
  ['fsconfig', 'call("fsconfig", -1, 6, 0, 0, 0)', 'EPERM'],
  ['fsmount', 'call("fsmount", -1, 0, 0)', 'EPERM'],
  ['fspick', 'call("fspick", -100, b"/", 0)', 'EPERM'],
  ['mount_setattr', 'call("mount_setattr", -100, b"/proc/sys", 0, bytes(32), 32)', 'EPERM'],
  ['statmount', 'call("statmount", 0, 0, 0, 0)', 'ENOSYS'],
  ['listmount', 'call("listmount", 0, 0, 0, 0)', 'ENOSYS'],
  ['open by file handle', 'call("open_by_handle_at", -100, bytes(64), 0)', 'EPERM'],
  ['name to file handle', 'call("name_to_handle_at", -100, b"/", bytes(64), bytes(8), 0)', 'EPERM'],
  ['fanotify', 'call("fanotify_init", 0, 0)', 'EPERM'],
  ['init_module', 'call("init_module", b"x", 1, b"")', 'EPERM'],
  ['finit_module', 'call("finit_module", 0, b"", 0)', 'EPERM'],
  ['delete_module', 'call("delete_module", b"overlay", 0)', 'EPERM'],
  ['kexec_load', 'call("kexec_load", 0, 0, 0, 0)', 'EPERM'],
  ['kexec_file_load', 'call("kexec_file_load", -1, -1, 0, 0, 0)', 'EPERM'],
  ['reboot', 'call("reboot", 0xfee1dead, 672274793, 0x01234567, 0)', 'EPERM'],
  ['swapon', 'call("swapon", b"/etc/passwd", 0)', 'EPERM'],
  ['swapoff', 'call("swapoff", b"/etc/passwd")', 'EPERM'],
  ['acct', 'call("acct", b"/tmp/acct")', 'EPERM'],
  ['quotactl', 'call("quotactl", 0, 0, 0, 0)', 'EPERM'],
  ['quotactl_fd', 'call("quotactl_fd", 0, 0, 0, 0)', 'EPERM'],
  ['the kernel log', 'call("syslog", 3, bytes(64), 64)', 'EPERM'],
  ['bpf', 'call("bpf", 0, bytes(64), 64)', 'EPERM'],
  ['perf', 'call("perf_event_open", bytes(128), 0, -1, -1, 0)', 'EPERM'],
  ['userfaultfd', 'call("userfaultfd", 0)', 'EPERM'],
  ['userfaultfd for user mode only', 'call("userfaultfd", 1)', 'EPERM'],
  ['add_key', 'call("add_key", b"user", b"k", b"v", 1, -3)', 'EPERM'],
  ['request_key', 'call("request_key", b"user", b"k", 0, -3)', 'EPERM'],
  ['keyctl', 'call("keyctl", 0, -3, 0)', 'EPERM'],
  ['io_uring_setup', 'call("io_uring_setup", 4, bytes(128))', 'ENOSYS'],
  ['io_uring_enter', 'call("io_uring_enter", -1, 0, 0, 0, 0)', 'ENOSYS'],
  ['io_uring_register', 'call("io_uring_register", -1, 0, 0, 0)', 'ENOSYS'],
  ['kcmp', 'call("kcmp", 1, 2, 0, 0, 0)', 'EPERM'],
  ['move_pages', 'call("move_pages", 1, 0, 0, 0, 0, 0)', 'EPERM'],
  ['process_madvise', 'call("process_madvise", -1, 0, 0, 4, 0)', 'EPERM'],
  ['vhangup', 'call("vhangup")', 'EPERM'],
  ['a call yet to be invented', 'raw(900)', 'ENOSYS'],
]

const CLOCKS_AND_NAMES: readonly Attempt[] = [
  ['clock_settime', 'call("clock_settime", 0, struct.pack("qq", 1, 0))', 'EPERM'],
  ['settimeofday', 'call("settimeofday", struct.pack("qq", 1, 0), 0)', 'EPERM'],
  ['adjtimex', 'call("adjtimex", bytes(256))', 'EPERM'],
  ['clock_adjtime', 'call("clock_adjtime", 0, bytes(256))', 'EPERM'],
  ['sethostname', 'call("sethostname", b"x", 1)', 'EPERM'],
  ['setdomainname', 'call("setdomainname", b"x", 1)', 'EPERM'],
  ['shift the time namespace', 'writes("/proc/self/timens_offsets", b"monotonic 9 0")', 'EPERM'],
]

const NAMESPACE_FLAGS = {
  mount: 0x00020000,
  cgroup: 0x02000000,
  uts: 0x04000000,
  ipc: 0x08000000,
  user: 0x10000000,
  pid: 0x20000000,
  net: 0x40000000,
}

const NAMESPACES: readonly Attempt[] = [
  ...Object.entries({ ...NAMESPACE_FLAGS, time: 0x80 }).map(
    ([name, flag]): Attempt => [`unshare the ${name} namespace`, `call("unshare", ${flag})`, 'EPERM'],
  ),
  ...Object.entries(NAMESPACE_FLAGS).map(
    ([name, flag]): Attempt => [
      `clone into a new ${name} namespace`,
      `call("clone", ${flag} | 17, 0, 0, 0, 0)`,
      'EPERM',
    ],
  ),
  [
    'clone with flags in the upper half too',
    `call("clone", ${NAMESPACE_FLAGS.user} | 17 | 1 << 40, 0, 0, 0, 0)`,
    'EPERM',
  ],
  ['clone3', 'call("clone3", bytes(88), 88)', 'ENOSYS'],
  ['setns', 'call("setns", os.open("/proc/self/ns/user", os.O_RDONLY), 0)', 'EPERM'],
  ['setns by pidfd', 'call("setns", call("pidfd_open", os.getpid(), 0), 0x10000000)', 'EPERM'],
]

describe.each(EVERYONE)('%s cannot use', (who) => {
  test.each([...HOST_AFFAIRS, ...CLOCKS_AND_NAMES, ...NAMESPACES])(
    '%s',
    async (_title, expression, answer) => {
      expect(await attackers.attempt(who, expression)).toBe(answer)
    },
  )

  test('user namespaces: the second lock shows a limit of 0', async () => {
    expect(await attackers.attempt(who, 'reads("/proc/sys/user/max_user_namespaces")')).toBe('0\n')
  })
})

/** Machine code in an anonymous mapping: what a compiler for another architecture would have emitted. */
const MACHINE_CODE = `
import mmap
def execute(code):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(at)()
    return errno.errorcode[-result] if result < 0 else result
`
const INT80 = (number: number) =>
  // push rbx; mov eax, number; xor ebx, ebx; xor ecx, ecx; xor edx, edx; int 0x80; pop rbx; ret
  `execute(b"\\x53\\xb8" + struct.pack("<i", ${number}) + b"\\x31\\xdb\\x31\\xc9\\x31\\xd2\\xcd\\x80\\x5b\\xc3")`

// Skip: the second doors of amd64 do not exist on other architectures
describe.skipIf(process.arch !== 'x64').each(EVERYONE)(
  '%s finds the doors of other architectures closed',
  (who) => {
    test.each([
      ['getpid by int 0x80', INT80(20)],
      ['mount by int 0x80', INT80(21)],
      ['socketcall by int 0x80', INT80(102)],
      ['clone3 by int 0x80', INT80(435)],
      ['getpid of x32', 'raw(0x40000000 + 39)'],
      ['ptrace of x32', 'raw(0x40000000 + 521, 0, 0, 0, 0)'],
      ['bpf of x32', 'raw(0x40000000 + 321, 0, 0, 0)'],
    ])('%s', async (_title, expression) => {
      await attackers.python(who, MACHINE_CODE)
      expect(await attackers.attempt(who, expression)).toBe('ENOSYS')
    })
  },
)
