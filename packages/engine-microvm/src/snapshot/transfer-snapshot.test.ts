import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { newSandboxId, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { ArrivingPart, PortablePart, PortableSnapshot } from '@dormouse/engine'
import { Arrivals, FailureLog } from '@dormouse/engine-linux/for-engines'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { MicrovmLayout, savedPaths } from '../host/microvm-layout.ts'
import { MicrovmHost, type MicrovmHostParts } from '../microvm-host.ts'
import { KERNEL_PIN } from '../template/guest-kernel.ts'
import { ArrivedFiles } from './arrived-files.ts'
import { MicrovmSnapshotStore } from './snapshot-store.ts'
import { machineTransfer } from './transfer-snapshot.ts'

const BUILD = 'python-build'
const ROOT = 'root-python.ext4'
const TOOLS = 'tools-1.ext4'
const MACHINE = {
  accelerator: 'tcg',
  qemuVersion: '7.2.0',
  kernel: KERNEL_PIN.release,
  memoryBytes: 4096,
  cpus: 1,
}

let directory: string
let from: ReturnType<typeof openHost>
let to: ReturnType<typeof openHost>
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-machines-'))
  from = openHost('from')
  to = openHost('to')
  onLoad = async () => {}
})
afterEach(() => rmSync(directory, { recursive: true }))

/** A host with a root disk and tools that it has built itself. */
function openHost(name: string) {
  const layout = new MicrovmLayout(join(directory, name), join(directory, name))
  for (const path of [layout.snapshotsDir, layout.burrowsDir, layout.arrivedDir, layout.disksDir])
    mkdirSync(path, { recursive: true })
  write(join(layout.disksDir, ROOT), `root built by ${name}`)
  write(join(layout.disksDir, TOOLS), `tools built by ${name}`)
  const qemu = { version: MACHINE.qemuVersion, accelerator: 'tcg' }
  const kernels = new Map([[MACHINE.kernel, { release: MACHINE.kernel }]])
  const { snapshotsDir, burrowsDir } = layout
  const arrivals = new Arrivals({
    ...{ failures: new FailureLog(), snapshotsDir, burrowsDir, rights: { owner: 0, mode: 0o644 } },
    findBurrow: async () => {
      throw new Error('there are no burrows')
    },
  })
  const machines = { layout, arrivals, qemu, kernels, tscKhz: 2_000_000 }
  const host = new MicrovmHost(machines as unknown as MicrovmHostParts)
  const store = new MicrovmSnapshotStore(host)
  const transfer = machineTransfer({ host, store, arrived: new ArrivedFiles(layout.arrivedDir) })
  return { layout, transfer, store, arrivals }
}

function write(path: string, content: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
}

/** One of a booted template, whose disk and memory are with the template. */
function makeSnapshot(own: string): SnapshotId {
  const id = newSnapshotId()
  const paths = from.layout.snapshot(id)
  const build = from.layout.template(BUILD)
  write(join(build.disks, 'booted.qcow2'), 'disk of the boot')
  write(join(build.memory, 'booted.memory'), 'memory of the boot')
  write(join(paths.disks, `${own}.qcow2`), `disk of ${own}`)
  write(join(paths.memory, `${own}.memory`), `memory of ${own}`)
  write(paths.state, `state of ${own}`)
  write(paths.map, 'map')
  const disks = [ROOT, 'booted.qcow2', `${own}.qcow2`]
  const base = {
    ...{
      machine: MACHINE,
      template: 'python',
      templateHash: 'h',
      rootDisk: ROOT,
      toolsDisk: TOOLS,
      build: BUILD,
    },
    ...{ disks, memory: ['booted.memory', `${own}.memory`] },
  }
  const common = { formatVersion: 1, id, sandboxId: newSandboxId(), kind: 'full', limits: {}, sums: {} }
  const manifest = { ...common, createdAt: '2026-11-01T00:00:00Z', base, bytes: { images: 0, memory: 0 } }
  write(paths.manifest, JSON.stringify(manifest))
  return id
}

/** Called before a chunk is given. */
let onLoad: (key: string) => Promise<void> = async () => {}

async function inTransit(part: PortablePart): Promise<ArrivingPart> {
  if (part.kind !== 'file') throw new Error('a machine has only files')
  const { key, sizeBytes } = part
  const { extents, content } = await part.read()
  const bytes = Buffer.concat(await content.toArray())
  const load = async () => {
    await onLoad(key)
    return bytes
  }
  return { kind: 'file', key, file: { sizeBytes, extents, chunkBytes: 4096, load } }
}

const send = (id: SnapshotId): Promise<ArrivingPart[]> =>
  from.transfer.export(id, ({ parts }: PortableSnapshot) => Promise.all(parts.map(inTransit)))
const filesOf = (dir: string) =>
  Object.fromEntries(
    (readdirSync(dir, { recursive: true }) as string[])
      .filter((name) => statSync(join(dir, name)).isFile() && name !== 'manifest.json')
      .map((name) => [name, readFileSync(join(dir, name), 'utf8')]),
  )

it('a snapshot arrives with the disks that its own host has built, and shares them with the next one', async () => {
  const [first, second] = [makeSnapshot('first'), makeSnapshot('second')]
  for (const id of [first, second]) {
    await to.transfer.import(id, await send(id), 'test')
    await to.transfer.untilArrived(id)
  }
  const { dir } = to.layout.snapshot(first)
  expect(filesOf(dir)).toEqual({
    state: 'state of first',
    'memory.map': 'map',
    [`disks/${ROOT}`]: 'root built by from',
    [`disks/${TOOLS}`]: 'tools built by from',
    'disks/booted.qcow2': 'disk of the boot',
    'disks/first.qcow2': 'disk of first',
    'memory/booted.memory': 'memory of the boot',
    'memory/first.memory': 'memory of first',
  })
  expect(await to.store.get(first)).toMatchObject({ id: first })
  // The link of the files that have arrived, and one of each snapshot.
  const links = (name: string) => statSync(join(dir, name)).nlink
  expect([links(`disks/${ROOT}`), links('disks/first.qcow2')]).toEqual([3, 2])
  expect([links('memory/booted.memory'), links('memory/first.memory')]).toEqual([3, 2])
  // On its way back nothing is fetched that its host has with the template.
  const back = await to.transfer.export(first, ({ parts }) => Promise.all(parts.map(inTransit)))
  await from.store.delete(first)
  await from.transfer.import(first, back, 'test')
  const names = Object.keys(filesOf(from.layout.snapshot(first).dir))
  expect(names).not.toContain(`disks/${ROOT}`)
  expect(names).toContain('disks/first.qcow2')
})

it.each([
  ['a part is missing', (parts: ArrivingPart[]) => parts.filter(({ key }) => !key.includes('first.memory'))],
  [
    'it is another snapshot',
    (parts: ArrivingPart[]) =>
      parts.map((part) => ({
        ...part,
        key: part.key.replace(/^machine\/[^/]+(?=\/(?:manifest|state))/, 'machine/other'),
      })),
  ],
])('nothing is left of an arrival when %s', async (_, change) => {
  const id = makeSnapshot('first')
  await expect(to.transfer.import(id, change(await send(id)), 'test')).rejects.toMatchObject({
    code: 'snapshot_unusable',
  })
  expect([readdirSync(to.layout.snapshotsDir), readdirSync(to.layout.arrivedDir)]).toEqual([[], []])
})

it('a snapshot that is deleted while it is sent is sent as it was', async () => {
  const id = makeSnapshot('first')
  const parts = await from.transfer.export(id, async ({ parts: all }) => {
    await from.store.delete(id)
    return Promise.all(all.map(inTransit))
  })
  await to.transfer.import(id, parts, 'test')
  expect(existsSync(savedPaths(to.layout.snapshot(id).dir).state)).toBe(true)
  expect(readdirSync(from.layout.snapshotsDir)).toEqual([])
})

/** Chunks of memory files are given after `release`. */
function holdMemory(): { asked: string[]; release: () => void } {
  const asked: string[] = []
  let release = () => {}
  const isReleased = new Promise<void>((resolve) => {
    release = resolve
  })
  onLoad = async (key) => {
    if (!key.includes('/memory/')) return
    asked.push(key)
    await isReleased
  }
  return { asked, release: () => release() }
}

it('a snapshot is there before its memory, which another one with the same file waits for', async () => {
  const [first, second] = [makeSnapshot('first'), makeSnapshot('second')]
  const [ofFirst, ofSecond] = [await send(first), await send(second)]
  const memory = holdMemory()
  await to.transfer.import(first, ofFirst, 'test')
  expect(await to.store.verify(first)).toBe(0)
  const shown = filesOf(to.layout.snapshot(first).dir)
  expect(shown['memory/first.memory']).toBe('\0'.repeat('memory of first'.length))
  const importing = to.transfer.import(second, ofSecond, 'test')
  await expect.poll(() => memory.asked.length).toBe(2)
  memory.release()
  await importing
  for (const id of [first, second]) await to.transfer.untilArrived(id)
  expect(memory.asked.sort()).toEqual(
    ['booted', 'first', 'second'].map((name) => `machine/memory/${name}.memory`),
  )
  expect(filesOf(to.layout.snapshot(second).dir)).toMatchObject({
    'memory/booted.memory': 'memory of the boot',
    'memory/second.memory': 'memory of second',
  })
})

it.each([
  ['only what is missing', false, ['first']],
  ['all of it after a restart of the machine', true, ['booted', 'first']],
])('the next server fetches %s', async (_, isOtherBoot, expected) => {
  const id = makeSnapshot('first')
  const parts = await send(id)
  const memory = holdMemory()
  onLoad = (key) => (key.includes('first.memory') ? new Promise(() => {}) : Promise.resolve())
  await to.transfer.import(id, parts, 'test')
  const { dir } = to.layout.snapshot(id)
  await expect.poll(() => filesOf(dir)['memory/booted.memory']).toBe('memory of the boot')
  await expect.poll(() => readFileSync(join(dir, 'arriving/booted.memory'))[0]).toBe(0)
  const origin = join(dir, 'arriving/origin.json')
  const left = JSON.parse(readFileSync(origin, 'utf8'))
  if (isOtherBoot) writeFileSync(origin, JSON.stringify({ ...left, bootId: 'another' }))

  to = openHost('to')
  onLoad = async (key) => void (key.includes('/memory/') && memory.asked.push(key))
  expect(await to.transfer.interrupted()).toEqual([{ id, origin: 'test' }])
  await expect(to.transfer.untilArrived(id)).rejects.toMatchObject({ code: 'host_unavailable' })
  await to.transfer.resume(id, parts)
  await to.transfer.untilArrived(id)
  expect(memory.asked.sort()).toEqual(expected.map((name) => `machine/memory/${name}.memory`))
  expect(await to.transfer.interrupted()).toEqual([])
  expect(filesOf(dir)).toMatchObject({ 'memory/first.memory': 'memory of first' })
})
