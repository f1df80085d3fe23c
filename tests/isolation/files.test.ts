import { lstat, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { EVERYONE, useAttackers } from './attackers.ts'
import { layoutOfProcesses } from './isolated-factory.ts'

const attackers = await useAttackers()

describe.each(EVERYONE)('the kernel’s files tell %s nothing of the host', (who) => {
  test.each([
    'kcore',
    'kmsg',
    'kallsyms',
    'keys',
    'key-users',
    'kpagecount',
    'kpageflags',
    'kpagecgroup',
    'timer_list',
    'vmallocinfo',
    'slabinfo',
    'modules',
    'cmdline',
    'config.gz',
    'interrupts',
    'sched_debug',
    'latency_stats',
    'bootconfig',
    'pagetypeinfo',
    'allocinfo',
    'vmcore',
    'mtrr',
  ])('/proc/%s', async (name) => {
    expect(['', 'ENOENT', 'EACCES', 'EPERM']).toContain(
      await attackers.attempt(who, `reads("/proc/${name}")`),
    )
  })

  test.each([
    '/proc/acpi',
    '/proc/asound',
    '/proc/scsi',
    '/sys/firmware',
    '/sys/fs/bpf',
    '/sys/hypervisor',
    '/sys/kernel/debug',
    '/sys/kernel/tracing',
    '/sys/kernel/security',
    '/sys/devices/virtual/powercap',
  ])('%s is empty', async (path) => {
    const seen = await attackers.attempt(who, `tries(lambda: os.listdir("${path}"))`)
    expect(['ENOENT', 'EACCES', []]).toContainEqual(seen)
  })

  test('/proc/iomem shows no addresses', async () => {
    const addresses = `[l.split()[0] for l in reads("/proc/iomem", 65536).splitlines()]`
    const seen = (await attackers.attempt(
      who,
      `${addresses} if reads("/proc/iomem") != "EACCES" else []`,
    )) as string[]
    expect(seen.filter((range) => !/^0+-0+$/.test(range))).toEqual([])
  })

  test('/proc/self/pagemap shows no physical page', async () => {
    const frames = `[e & (1 << 55) - 1 for e in struct.unpack("512Q", PAGES)]`
    await attackers.python(who, PAGEMAP)
    expect(new Set((await attackers.attempt(who, frames)) as number[])).toEqual(new Set([0]))
  })

  test.each([
    '/proc/sys/kernel/hostname',
    '/proc/sys/kernel/core_pattern',
    '/proc/sys/kernel/modprobe',
    '/proc/sys/kernel/ns_last_pid',
    '/proc/sys/vm/overcommit_memory',
    '/proc/sys/user/max_user_namespaces',
    '/proc/sys/user/max_inotify_instances',
    '/proc/sys/net/ipv4/ip_forward',
    '/proc/sys/fs/file-max',
    '/proc/sysrq-trigger',
    '/proc/irq/default_smp_affinity',
    '/sys/kernel/mm/transparent_hugepage/enabled',
    '/sys/class/net/lo/mtu',
    '/sys/kernel/uevent_helper',
    '/sys/power/state',
  ])('%s cannot be written', async (path) => {
    expect(['EROFS', 'EACCES', 'ENOENT']).toContain(await attackers.attempt(who, `writes("${path}", b"1")`))
  })

  test('no cgroup file system is in sight', async () => {
    expect(await attackers.attempt(who, 'reads("/proc/self/mountinfo")')).not.toMatch(/ - cgroup/)
    expect(await attackers.attempt(who, 'reads("/proc/self/cgroup")')).not.toMatch(/dormouse|bw-/)
  })
})

const PAGEMAP = `
buffer = bytearray(4096 * 8)
with open("/proc/self/pagemap", "rb", buffering=0) as pages:
    at = ctypes.addressof(ctypes.c_char.from_buffer(buffer)) // 4096 * 8
    pages.seek(at)
    PAGES = pages.read(4096)
`

describe.each(EVERYONE)('devices: %s', (who) => {
  test.each([
    ['a disk', 0o60000, 'os.makedev(8, 0)', 'EPERM'],
    ['the first virtual disk', 0o60000, 'os.makedev(254, 0)', 'EPERM'],
    ['kernel memory', 0o20000, 'os.makedev(1, 1)', 'EPERM'],
    ['the kernel log', 0o20000, 'os.makedev(1, 11)', 'EPERM'],
    ['an overlay whiteout', 0o20000, '0', 'EPERM'],
  ])('cannot make %s', async (_title, type, device, answer) => {
    const make = `tries(lambda: os.mknod("/tmp/node-${who}", ${type} | 0o666, ${device}))`
    expect(await attackers.attempt(who, make)).toBe(answer)
  })

  test('finds the harmless ones only', async () => {
    const names = await attackers.attempt(who, 'sorted(os.listdir("/dev"))')
    expect(names).toEqual([
      '.limits',
      '.masked',
      'fd',
      'full',
      'mqueue',
      'null',
      'ptmx',
      'pts',
      'random',
      'shm',
      'stderr',
      'stdin',
      'stdout',
      'tty',
      'urandom',
      'zero',
    ])
  })

  test.each([
    ['add to /dev', 'os.open("/dev/new", os.O_CREAT | os.O_WRONLY)'],
    ['remove from /dev', 'os.unlink("/dev/null")'],
    ['chmod /dev/null', 'os.chmod("/dev/null", 0)'],
    ['chown /dev/null', 'os.chown("/dev/null", 1000, 1000)'],
    ['touch /dev/null', 'os.utime("/dev/null", (0, 0))'],
    ['fill the mask', 'os.open("/proc/acpi/x", os.O_CREAT | os.O_WRONLY)'],
  ])('cannot %s', async (_title, action) => {
    expect(['EROFS', 'EACCES', 'EPERM', 'ENOENT']).toContain(
      await attackers.attempt(who, `tries(lambda: ${action})`),
    )
  })
})

describe.each(EVERYONE)('what is ours is out of reach of %s', (who) => {
  const refused = ['EROFS', 'EACCES', 'EPERM', 'EBUSY', 'EXDEV', 'EINVAL', 'ENOTEMPTY', 'EADDRINUSE']
  const agent = '/.dormouse/guest/dormouse_agent/__main__.py'
  const sock = '/.dormouse/run/agent.sock'
  test.each([
    ['write the agent', `os.open("${agent}", os.O_WRONLY)`],
    ['truncate the agent', `os.truncate("${agent}", 0)`],
    ['chmod the agent', `os.chmod("${agent}", 0o777)`],
    ['chown the agent', `os.chown("${agent}", 0, 0)`],
    ['remove the agent', `os.unlink("${agent}")`],
    ['set an attribute of the agent', `os.setxattr("${agent}", "user.x", b"1")`],
    ['link the agent elsewhere', `os.link("${agent}", "/tmp/agent-${who}")`],
    ['add a tool', 'os.mkdir("/.dormouse/new")'],
    ['rename the tools', 'os.rename("/.dormouse", "/dormouse")'],
    ['rename a directory of tools', 'os.rename("/.dormouse/guest", "/tmp/guest")'],
    ['exchange the tools', 'exchange("/.dormouse", "/mnt")'],
    ['remove the tools', 'os.rmdir("/.dormouse")'],
    ['remove the socket', `os.unlink("${sock}")`],
    ['rename the socket', `os.rename("${sock}", "/.dormouse/run/old.sock")`],
    ['put a link in the socket’s place', `os.symlink("/tmp/x", "/.dormouse/run/new")`],
    ['put a file beside the socket', 'os.open("/.dormouse/run/file", os.O_CREAT | os.O_WRONLY)'],
    ['bind a socket of its own', `socket.socket(socket.AF_UNIX).bind("/.dormouse/run/my.sock")`],
    ['rebind the socket', `socket.socket(socket.AF_UNIX).bind("${sock}")`],
    ['rename the socket’s directory', 'os.rename("/.dormouse/run", "/.dormouse/old")'],
    ['chmod the socket’s directory', 'os.chmod("/.dormouse/run", 0o777)'],
    ['chown the socket’s directory', 'os.chown("/.dormouse/run", 0, 0)'],
    ['set an attribute of the socket’s directory', 'os.setxattr("/.dormouse/run", "user.x", b"1")'],
    ['rename /proc', 'os.rename("/proc", "/proc2")'],
    ['rename /dev', 'os.rename("/dev", "/dev2")'],
    ['exchange /proc', 'exchange("/proc", "/mnt")'],
    ['remove /dev/pts', 'os.rmdir("/dev/pts")'],
    ['write its memory limit', 'os.open("/sys/fs/cgroup/memory.max", os.O_WRONLY)'],
    ['remove its memory limit', 'os.unlink("/sys/fs/cgroup/memory.max")'],
    ['add to its cgroup', 'os.open("/sys/fs/cgroup/new", os.O_CREAT | os.O_WRONLY)'],
    ['write /proc/meminfo', 'os.open("/proc/meminfo", os.O_WRONLY)'],
    ['chmod /proc/meminfo', 'os.chmod("/proc/meminfo", 0o666)'],
    ['write the numbers of the guard', 'os.open("/dev/.limits/numbers", os.O_WRONLY)'],
  ])('cannot %s', async (_title, action) => {
    await attackers.python(who, EXCHANGE)
    expect(refused).toContain(await attackers.attempt(who, `tries(lambda: ${action})`))
  })
})

const EXCHANGE = `
def exchange(a, b):
    if ctypes.CDLL(None, use_errno=True).renameat2(-100, a.encode(), -100, b.encode(), 2):
        raise OSError(ctypes.get_errno(), "renameat2")
`

describe('the root of the sandbox is all there is', () => {
  test.each(EVERYONE)('%s finds no file of the host', async (who) => {
    const marker = join(attackers.factory.stateDir, 'marker')
    for (const path of [marker, '/var/lib/dormouse/templates', attackers.factory.layout.runDir])
      expect(await attackers.attempt(who, `tries(lambda: os.stat("${path}") and "seen")`)).toBe('ENOENT')
  })

  test('chroot and back leads no further than the sandbox’s own root', async () => {
    const breakOut = `in_child(lambda: (os.mkdir("/tmp/jail"), os.chroot("/tmp/jail"),
      [os.chdir("..") for _ in range(100)], os.chroot("."), sorted(os.listdir("/")))[-1])`
    const seen = (await attackers.attempt('root', breakOut)) as string
    expect(seen).toContain("'.dormouse'")
    expect(seen).toBe(await attackers.attempt('root', 'repr(sorted(os.listdir("/")))'))
  })

  test('mount points and environment show no path of the host but those of tools and shown limits', async () => {
    const mounts = (await attackers.attempt('user', 'reads("/proc/self/mountinfo", 65536)')) as string
    const shown =
      '/dev/.limits /proc/meminfo /proc/cpuinfo /sys/devices/system/cpu/online /sys/fs/cgroup'.split(' ')
    const lines = mounts
      .split('\n')
      .filter((line) => !/ \/\.dormouse(\/\w+)? /.test(line) && !shown.includes(line.split(' ')[4] ?? ''))
    // The overlay's layers are named relative to a directory that the sandbox does not know.
    expect(lines.join('\n')).not.toMatch(/dir=\/|:\/|dormouse-test|\/work|bw-/)
    expect(lines.find((line) => line.includes(' / / '))).toMatch(/nodev/)
    const environment = await attackers.attempt('user', 'json.dumps(dict(os.environ))')
    expect(environment).not.toMatch(/var\/lib|dormouse-test|\/work/)
  })

  test('the files API follows links inside only', async () => {
    const { guest } = attackers
    await attackers.python(
      'root',
      'os.symlink("/etc/hostname", "/tmp/link"); open("/etc/hostname", "w").write("inner")',
    )
    const up = `${'../'.repeat(40)}etc/hostname`
    for (const path of ['/tmp/link', `/tmp/${up}`, '/proc/self/root/etc/hostname']) {
      const chunks: Uint8Array[] = []
      for await (const chunk of guest.files.read(path, { user: 'root' })) chunks.push(chunk)
      expect(Buffer.concat(chunks).toString()).toBe('inner')
    }
    expect(await readFile('/etc/hostname', 'utf8').catch(() => '')).not.toBe('inner')
  })

  test('setuid files and file capabilities belong to the shifted range on the host', async () => {
    await attackers.python(
      'root',
      `
import shutil
shutil.copy("/bin/sh", "/opt/setuid-sh"); os.chmod("/opt/setuid-sh", 0o6755)
shutil.copy("/bin/sh", "/opt/capable-sh"); os.chmod("/opt/capable-sh", 0o755)
os.setxattr("/opt/capable-sh", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 7, 0, 0, 0))
`,
    )
    const upper = layoutOfProcesses(attackers.factory).burrow(attackers.burrow.id).upper
    for (const name of ['setuid-sh', 'capable-sh']) {
      const { uid, gid } = await lstat(join(upper, 'opt', name))
      expect(Math.min(uid, gid)).toBeGreaterThanOrEqual(100_000)
    }
    // Version 3 names the user namespace it is good for, and version 2 would be good for the host's.
    const stored = 'os.getxattr("/opt/capable-sh", "security.capability")[3]'
    expect(await attackers.attempt('root', stored)).toBe(2)
    const { stdout } = await import('node:child_process').then(({ spawnSync }) =>
      spawnSync('getfattr', ['-e', 'hex', '-n', 'security.capability', join(upper, 'opt/capable-sh')], {
        encoding: 'utf8',
      }),
    )
    expect(stdout ?? '').not.toMatch(/0x01000002/)
    expect((await lstat(join(upper, '..'))).mode & 0o077).toBe(0)
  })
})
