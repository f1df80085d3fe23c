import { existsSync } from 'node:fs'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { newSandboxId, newVolumeId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findHierarchies } from '../../packages/engine-linux/src/cgroup/find-hierarchies.ts'
import { burrowFilters } from '../../packages/engine-linux/src/native-programs.ts'
import { BOOT_TIMEOUT_MS, type MicrovmFactory, microvmFactory, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
/** Filters of QEMU's own option `-sandbox`. */
const FILTERS_OF_QEMU = 1
const CAPABILITIES = ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']
/** DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID and CHOWN, over the ids of sandboxes. */
const OVER_FILES = 0b1_1111n

interface Member {
  readonly pid: number
  /** Of every thread: the fields of its status file. */
  readonly threads: readonly ReadonlyMap<string, string>[]
}

/** What a hostile guest finds when it has taken over QEMU, or the process that answers for a volume. */
// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)(`the jail of a machine${missing ? `: ${missing}` : ''}`, () => {
  let factory: MicrovmFactory
  let engine: MicrovmEngine
  let burrow: Burrow
  let qemu: Member
  let volumeServer: Member
  const volumeId = newVolumeId()

  beforeAll(async () => {
    factory = await microvmFactory()
    engine = await factory.open()
    await engine.createVolume(volumeId)
    const volumes = [{ volumeId, path: '/data', readOnly: false }]
    burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', volumes })
    await burrow.guest.files.write('/data/kept', Buffer.from('kept'))
    const members = await membersOf(burrow)
    const [found, other, ...more] = members
    const nameOf = (member: Member | undefined) => member?.threads[0]?.get('Name')
    expect([nameOf(found), nameOf(other), more]).toEqual(['qemu-system-x86', 'dormouse-volume', []])
    qemu = found!
    volumeServer = other!
  }, BOOT_TIMEOUT_MS)
  afterAll(async () => {
    await burrow?.destroy()
    await engine?.[Symbol.asyncDispose]()
    await factory?.cleanUp()
  })

  const recordOf = async () => JSON.parse(await readFile(factory.layout.burrow(burrow.id).record, 'utf8'))

  test('every thread of QEMU has a uid of its own, no capabilities, and the filters of a burrow', async () => {
    const { first, uid } = await recordOf()
    expect(qemu.pid).toBe(first.pid)
    // Those that run the processors of the guest, and those that read its disks.
    expect(qemu.threads.length).toBeGreaterThan(1)
    for (const thread of qemu.threads) {
      for (const ids of ['Uid', 'Gid']) expect(thread.get(ids)).toBe(Array(4).fill(uid).join('\t'))
      expect(thread.get('Groups')).toBe('')
      for (const name of CAPABILITIES) expect(thread.get(name)).toMatch(/^0+$/)
      expect(filtersOf(thread)).toEqual(['1', '2', String(burrowFilters.length + FILTERS_OF_QEMU)])
    }
  })

  test('the process of a volume has the filters of a burrow, and capabilities over files only', () => {
    expect(volumeServer.threads).toHaveLength(1)
    for (const thread of volumeServer.threads) {
      for (const name of CAPABILITIES) expect(BigInt(`0x${thread.get(name)}`) & ~OVER_FILES).toBe(0n)
      expect(thread.get('Uid')).not.toMatch(/\b0\b/)
      expect(filtersOf(thread)).toEqual(['1', '2', String(burrowFilters.length)])
    }
  })

  test('both are in namespaces of their own and in the cgroups of the burrow', async () => {
    const { v1, v2 } = await findHierarchies()
    const mounts = new Set([...v1.values(), ...(v2 === undefined ? [] : [v2.path])])
    const { cgroup } = factory.layout.burrow(burrow.id)
    const directories = [...mounts].map((mount) => join(mount, cgroup)).filter(existsSync)
    expect(directories.length).toBeGreaterThan(0)
    for (const { pid } of [qemu, volumeServer]) {
      for (const name of ['mnt', 'net', 'pid', 'ipc', 'uts']) {
        const [own, ours] = await Promise.all([pid, 'self'].map((one) => readlink(`/proc/${one}/ns/${name}`)))
        expect(own).not.toBe(ours)
      }
      for (const directory of directories) {
        const procs = (await readFile(join(directory, 'cgroup.procs'), 'utf8')).trim().split('\n')
        expect(procs).toContain(String(pid))
      }
    }
    for (const limit of ['memory', 'pids'])
      expect(directories.some((directory) => hasLimit(directory, limit))).toBe(true)
  })

  test('QEMU sees itself, its libraries and what its machine needs; a volume’s process sees the volume', async () => {
    const inside = (pid: number, path: string) => readdir(`/proc/${pid}/root/${path}`)
    const { pid } = qemu
    expect((await inside(pid, '/')).sort()).toEqual([
      'dev',
      'disk.qcow2',
      'disks',
      'guest',
      'lib64',
      'libraries',
      'memory',
      'proc',
      'run',
      'usr',
    ])
    expect(await inside(pid, '/proc')).toEqual([])
    expect((await inside(pid, '/guest')).sort()).toEqual(['initrd', 'kernel', 'memory.so', 'tools'])
    expect(await inside(pid, '/usr/bin')).toEqual(['qemu-system-x86_64'])
    expect(await inside(pid, '/usr/share')).toEqual(['qemu'])
    expect(await inside(pid, '/lib64')).toEqual(['ld-linux-x86-64.so.2'])
    expect((await inside(pid, '/libraries')).filter((name) => !/\.so(\.\d+)*$/.test(name))).toEqual([])
    expect((await inside(pid, '/dev')).filter((name) => name !== 'kvm').sort()).toEqual(['null', 'urandom'])
    expect(await inside(volumeServer.pid, '/')).toEqual(['kept'])
  })

  test('only the sockets, the disk and the mapped memory of its own burrow can be written', async () => {
    const mounts = (await readFile(`/proc/${qemu.pid}/mountinfo`, 'utf8')).trim().split('\n')
    const writable = mounts.filter((line) => line.split(' ')[5]!.split(',').includes('rw'))
    // The two directories are file systems in which only root can make files.
    expect(writable.map((line) => line.split(' ')[4]).sort()).toEqual([
      '/disk.qcow2',
      '/disks',
      '/memory',
      '/run',
    ])
  })

  async function membersOf({ id }: Burrow): Promise<Member[]> {
    const { v1, v2 } = await findHierarchies()
    const mount = v1.get('memory') ?? v2?.path ?? ''
    const procs = await readFile(join(mount, factory.layout.burrow(id).cgroup, 'cgroup.procs'), 'utf8')
    const pids = procs.trim().split('\n').map(Number)
    return Promise.all(pids.map(async (pid) => ({ pid, threads: await threadsOf(pid) })))
  }
})

async function threadsOf(pid: number): Promise<ReadonlyMap<string, string>[]> {
  const ids = await readdir(`/proc/${pid}/task`)
  return Promise.all(
    ids.map(async (id) => {
      const lines = (await readFile(`/proc/${pid}/task/${id}/status`, 'utf8')).split('\n')
      return new Map(
        lines.map((line) => [line.split(':')[0]!, line.slice(line.indexOf(':') + 1).trim()] as const),
      )
    }),
  )
}

/** Whether filters are on and how many there are. */
function filtersOf(thread: ReadonlyMap<string, string>): (string | undefined)[] {
  return ['NoNewPrivs', 'Seccomp', 'Seccomp_filters'].map((name) => thread.get(name))
}

function hasLimit(directory: string, controller: string): boolean {
  return ['max', 'limit_in_bytes'].some((file) => existsSync(join(directory, `${controller}.${file}`)))
}
