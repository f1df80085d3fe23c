import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BOOT_TIMEOUT_MS, type MicrovmFactory, microvmFactory, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
const LIBRARIES = '/opt/nested'
/** Namespaces of all kinds, with files of the sandbox, and a /proc and a /dev of their own. */
const CONTAINER = `LD_LIBRARY_PATH=${LIBRARIES} ${LIBRARIES}/bwrap --unshare-all --unsetenv LD_LIBRARY_PATH --hostname inside --ro-bind / / --bind /root /root --proc /proc --dev /dev --`

const CRUN = `LD_LIBRARY_PATH=${LIBRARIES} ${LIBRARIES}/crun --cgroup-manager=cgroupfs`
/** Counts in a file of the sandbox. */
const COUNT = 'n=0; while :; do n=$((n+1)); echo $n > /root/new; mv /root/new /root/count; sleep 0.05; done'
/** What container programs run: with namespaces of its own, and the programs of the sandbox. */
const BUNDLE = {
  ...{ ociVersion: '1.0.0', hostname: 'box', root: { path: 'rootfs' } },
  process: {
    ...{ cwd: '/', user: { uid: 0, gid: 0 }, env: ['PATH=/usr/bin'], args: ['sh', '-c', COUNT] },
    ...{ terminal: false, noNewPrivileges: true },
  },
  mounts: [
    { destination: '/proc', type: 'proc', source: 'proc' },
    { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755'] },
    { destination: '/usr', type: 'bind', source: '/usr', options: ['rbind', 'ro'] },
    { destination: '/root', type: 'bind', source: '/root', options: ['rbind'] },
  ],
  linux: {
    namespaces: ['pid', 'network', 'ipc', 'uts', 'mount', 'cgroup'].map((type) => ({ type })),
  },
}

// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)(`containers in a machine${missing ? `: ${missing}` : ''}`, () => {
  let factory: MicrovmFactory
  let engine: MicrovmEngine
  let burrow: Burrow

  beforeAll(async () => {
    factory = await microvmFactory()
    engine = await factory.open()
    burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  }, BOOT_TIMEOUT_MS)
  afterAll(async () => {
    await burrow?.destroy()
    await engine?.[Symbol.asyncDispose]()
    await factory?.cleanUp()
  })
  const sh = async (code: string) => {
    const { stdout, stderr } = await burrow.guest.runs.run({ code, language: 'bash' })
    return `${stdout}${stderr}`.trim()
  }

  test('bwrap makes a container, which continues after a sleep on disk', async () => {
    await copyProgram('/usr/bin/bwrap')
    const look = `${CONTAINER} sh -c 'uname -n; id -u; cat /proc/1/comm; ls -d /proc/[0-9]* | wc -l'`
    const [name, user, first, processes] = (await sh(look)).split('\n')
    expect([name, user, first]).toEqual(['inside', '0', 'bwrap'])
    // Its own: the first process, the shell and what it started.
    expect(Number(processes)).toBeLessThan(6)
    await burrow.guest.processes.start({ shell: `${CONTAINER} sh -c '${COUNT}'` })
    await countsOverSleep()
    await sh('pkill -f /root/new; rm /root/count')
  })

  test('crun runs a container of a bundle, which keeps its name, its pid and its count over a sleep', async () => {
    await copyProgram('/usr/bin/crun')
    await burrow.guest.files.write('/opt/bundle/config.json', Buffer.from(JSON.stringify(BUNDLE)), {
      parents: true,
    })
    await sh('cd /opt/bundle && mkdir -p rootfs/usr && ln -s usr/bin usr/lib usr/lib64 rootfs')
    expect(
      await sh(`${CRUN} run --detach --bundle /opt/bundle box < /dev/null > /root/log 2>&1; cat /root/log`),
    ).toBe('')
    const look = async () => {
      const { status, pid } = JSON.parse(await sh(`${CRUN} state box`))
      return { status, pid, name: await sh(`${CRUN} exec box uname -n`) }
    }
    const before = await look()
    expect(before).toEqual({ status: 'running', pid: expect.any(Number), name: 'box' })
    await countsOverSleep()
    expect(await look()).toEqual(before)
    expect(await sh(`${CRUN} delete --force box; ${CRUN} list --quiet`)).toBe('')
  })

  test('the kernel has bridges, pairs of network cards and packet filters for them', async () => {
    const code = `
import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x89A0, b"bridge0\\0")
def attribute(kind, data): return struct.pack("HH", 4 + len(data), kind) + data + b"\\0" * (-len(data) % 4)
message = struct.pack("BxHiII", 0, 0, 0, 0, 0) + attribute(3, b"pair0\\0") + attribute(18, attribute(1, b"veth\\0"))
routes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
routes.send(struct.pack("IHHII", 16 + len(message), 16, 0x605, 1, 0) + message)
print(struct.unpack_from("i", routes.recv(4096), 16)[0], [name for _, name in socket.if_nameindex() if name[-1] == "0"])
modules = {line.split()[0] for line in open("/proc/modules")}
wanted = {"nf_tables", "nf_nat", "nft_masq", "nft_compat", "nft_fib_inet", "xt_nat", "xt_set", "br_netfilter", "tun"}
print(sorted(wanted - modules))`
    const { stdout, error } = await burrow.guest.runs.run({ code })
    expect(error).toBeUndefined()
    expect(stdout).toMatch(/^0 \[.*'bridge0'.*\]\n\[\]\n$/)
    expect(stdout).toContain("'pair0'")
  })

  test('cgroups below have limits of their own, as containers want them', async () => {
    const limits =
      'cat memory.max pids.max; cat programs/memory.max programs/pids.max; cat cgroup.subtree_control'
    const [memory, pids, ...others] = (await sh(`cd /sys/fs/cgroup && ${limits}`)).split('\n')
    expect(Number(memory)).toBeGreaterThan(0)
    expect(others).toEqual([memory, pids, 'cpu memory pids'])
    const fill = 'import os; data = bytearray(os.urandom(1 << 20)) * 200; print("filled")'
    const inside = `echo $$ > /sys/fs/cgroup/box/cgroup.procs && exec python3 -c '${fill}'`
    await sh('mkdir /sys/fs/cgroup/box && echo 67108864 > /sys/fs/cgroup/box/memory.max')
    expect(await sh(`bash -c '${inside.replaceAll("'", `'\\''`)}'; echo $?`)).toMatch(/^137$/m)
    expect(await sh(`python3 -c '${fill}'; rmdir /sys/fs/cgroup/box`)).toBe('filled')
  })

  /** A container counts before the sandbox sleeps on disk, and afterwards from there. */
  async function countsOverSleep(): Promise<void> {
    const counted = async () => Number(await sh('cat /root/count 2>/dev/null || echo 0'))
    await expect.poll(counted, { timeout: 30_000 }).toBeGreaterThan(1)
    const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
    burrow = await engine.restore(snapshot.id, { sandboxId: burrow.sandboxId })
    const before = await counted()
    await expect.poll(counted, { timeout: 30_000 }).toBeGreaterThan(before)
    await engine.deleteSnapshot(snapshot.id)
  }

  /** With its libraries: the template may have others. */
  async function copyProgram(program: string): Promise<void> {
    const { stdout } = await promisify(execFile)('ldd', [program])
    const libraries = [...stdout.matchAll(/ => (\/\S+) \(/g)].map((match) => match[1]!)
    // The loader and the C library are a pair; those of the template are newer.
    for (const path of [program, ...libraries.filter((one) => !/\/libc\.so/.test(one))]) {
      const copy = `${LIBRARIES}/${basename(path)}`
      await burrow.guest.files.write(copy, await readFile(path), { parents: true })
    }
    await sh(`chmod 755 ${LIBRARIES}/*`)
  }
})
