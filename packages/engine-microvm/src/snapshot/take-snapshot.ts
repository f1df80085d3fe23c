import { createWriteStream, existsSync } from 'node:fs'
import {
  chmod,
  chown,
  constants,
  copyFile,
  link,
  mkdir,
  open,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { createServer } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { DormouseError, newLayerId, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import {
  hashFile,
  runCommand,
  syncDirectory,
  type VolumeLock,
  writeDurably,
} from '@dormouse/engine-linux/for-engines'
import { stateName } from '../burrow/burrow-volumes.ts'
import type { MicrovmBurrow } from '../burrow/microvm-burrow.ts'
import { type SavedPaths, savedPaths } from '../host/microvm-layout.ts'
import { pagesProgram } from '../native-programs.ts'
import { JAIL, memoryInJail } from '../qemu/qemu-arguments.ts'
import {
  type Base,
  disksOf,
  formatManifest,
  MANIFEST_FORMAT_VERSION,
  type Manifest,
} from '../storage/manifest.ts'
import { ignoreMemory, linkExisting, waitForMigration } from './make-burrow.ts'

/** Device state has about 60 KB; a hostile QEMU must not fill the disk. */
const STATE_MAX_BYTES = 64 * 1024 ** 2

export interface TakeSnapshot {
  readonly id: SnapshotId
  readonly kind: 'full' | 'files'
  /** The final directory. */
  readonly target: string
  /** Whether the burrow's own disk can be taken away from it: it ends afterwards. */
  readonly endsAfter: boolean
  /** A fork: parent and children cannot all have a lock for writing. */
  readonly isForked?: boolean | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Writes a snapshot of a burrow that stands still. Post: it is on disk under its final name, without the checksum of its
 * disk: see DiskSums. On failure nothing of it is left and the burrow can continue.
 */
export async function writeSnapshot(burrow: MicrovmBurrow, take: TakeSnapshot): Promise<Manifest> {
  const work = savedPaths(join(dirname(take.target), `.taking-${take.id}`))
  try {
    await mkdir(work.dir, { mode: 0o700 })
    await mkdir(work.disks)
    await mkdir(work.memory)
    const sums: Record<string, string> = {}
    const base = await saveParts(burrow, take, { work, sums })
    const volumeLocks = take.kind === 'full' ? await saveVolumes(burrow, take, { work, sums }) : []
    take.signal?.throwIfAborted()
    const manifest = await describe(burrow, take, { base, volumeLocks, work, sums })
    await writeDurably(work.manifest, formatManifest(manifest))
    for (const path of [work.disks, work.memory, work.dir]) await syncDirectory(path)
    take.signal?.throwIfAborted()
    await rename(work.dir, take.target)
    await syncDirectory(dirname(take.target))
    return manifest
  } catch (error) {
    await rm(work.dir, { recursive: true, force: true })
    throw error
  }
}

interface Work {
  readonly work: SavedPaths
  readonly sums: Record<string, string>
}

async function saveParts(burrow: MicrovmBurrow, take: TakeSnapshot, to: Work): Promise<Base> {
  const { base } = burrow.record
  const { work, sums } = to
  let memory: string[] = []
  if (take.kind === 'full') {
    // Also after an abort: the next snapshot needs a QEMU that saves no devices any more.
    const [pages, devices] = await Promise.allSettled([
      savePages(burrow, to, take.signal),
      saveDevices(burrow, work.state),
    ])
    if (pages.status === 'rejected') throw pages.reason
    if (devices.status === 'rejected') throw devices.reason
    const name = pages.value
    sums['state'] = await hashFile(work.state)
    sums['memory.map'] = await hashFile(work.map)
    memory = await memoryInMap(work.map)
    if (!memory.includes(name)) await rm(join(work.memory, name))
    await linkExisting(burrow.paths.memory, work.memory, memory)
  }
  const disk = `${newLayerId()}.qcow2`
  await saveDisk(burrow.paths.disk, join(work.disks, disk), take.endsAfter)
  await linkExisting(burrow.paths.disks, work.disks, disksOf(base))
  return { ...base, disks: [...base.disks, disk], memory }
}

/** What the guest knows of its volumes and has open there. Returns the locks that its programs hold. */
async function saveVolumes(
  burrow: MicrovmBurrow,
  { isForked }: TakeSnapshot,
  { work, sums }: Work,
): Promise<VolumeLock[]> {
  const locks = await burrow.volumes.save(work.volumes)
  const lock = locks.find(({ type }) => type === 'WRITE')
  if (isForked === true && lock !== undefined) {
    const reason = `a process holds a lock for writing on ${lock.path}, on a volume, which only one sandbox can have`
    throw new DormouseError('snapshot_refused', `The sandbox cannot be saved: ${reason}.`, {
      details: { reason, path: lock.path },
    })
  }
  for (const { number } of burrow.record.volumes) {
    const name = `volumes/${stateName(number)}`
    if (existsSync(join(work.dir, name))) sums[name] = await hashFile(join(work.dir, name))
  }
  if (burrow.record.volumes.length > 0) await syncDirectory(work.volumes)
  return locks
}

/** The devices without the memory. QEMU connects to a socket of this process. */
async function saveDevices(burrow: MicrovmBurrow, file: string): Promise<void> {
  const path = join(burrow.paths.run, basename(JAIL.outgoing))
  await rm(path, { force: true })
  const server = createServer()
  const written = new Promise<void>((resolve, reject) => {
    server.once('connection', (socket) => {
      let bytes = 0
      socket.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > STATE_MAX_BYTES) socket.destroy(new Error('the state of the devices is too large'))
      })
      pipeline(socket, createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true })).then(
        resolve,
        reject,
      )
    })
  })
  written.catch(() => {})
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, resolve)
  })
  try {
    await chmod(path, 0o666)
    await ignoreMemory(burrow.qmp)
    await burrow.qmp.execute('migrate', { uri: `unix:${JAIL.outgoing}` })
    await waitForMigration(burrow.qmp)
    await written
  } finally {
    server.close()
    await rm(path, { force: true })
  }
}

/** Writes the pages that changed since the snapshot that the burrow came from. Returns the name of their file. */
async function savePages(burrow: MicrovmBurrow, { work, sums }: Work, signal?: AbortSignal): Promise<string> {
  const name = `${newLayerId()}.memory`
  const parent = existsSync(burrow.paths.map) ? burrow.paths.map : '-'
  const { memoryBytes } = burrow.record.base.machine
  const address = await memoryAddress(burrow)
  const argv = [
    ...[pagesProgram, 'save', String(burrow.first.pid), address, String(memoryBytes), parent],
    ...[join(work.memory, name), work.map, memoryInJail(name), work.touched],
  ] as [string, ...string[]]
  const { exitCode, stdout, tail } = await runCommand({ argv, signal })
  if (exitCode === 28) throw new DormouseError('no_space', 'The disk is full: the snapshot was not taken.')
  if (exitCode !== 0) throw new DormouseError('snapshot_refused', `Memory was not saved: ${tail.join(' ')}`)
  await chmod(join(work.memory, name), 0o644)
  sums[`memory/${name}`] = stdout.trim()
  return name
}

/** Where QEMU has the guest's memory. It only matters to what is read of QEMU itself. */
async function memoryAddress(burrow: MicrovmBurrow): Promise<string> {
  const args = { 'command-line': 'gpa2hva 0' }
  const answer = String(await burrow.qmp.execute('human-monitor-command', args))
  const address = /is 0x([0-9a-f]+)/.exec(answer)?.[1]
  if (address === undefined)
    throw new DormouseError('snapshot_refused', 'QEMU does not say where its memory is.')
  return address
}

/** The files that a map refers to, by name. Consolidated memory no longer refers to the older ones. */
async function memoryInMap(path: string): Promise<string[]> {
  const lines = (await readFile(path, 'utf8')).split('\n')
  return lines.filter((line) => line.startsWith('file ')).map((line) => basename(line))
}

/** A burrow that ends gives its disk away; one that continues keeps writing to its own, so the snapshot gets a copy. */
async function saveDisk(from: string, to: string, endsAfter: boolean): Promise<void> {
  if (endsAfter) await link(from, to)
  else await copyFile(from, to, constants.COPYFILE_FICLONE)
  await chown(to, 0, 0)
  await chmod(to, 0o644)
  await syncFile(to)
}

/** Post: what was written to the file before is on disk. */
export async function syncFile(path: string): Promise<void> {
  const handle = await open(path, 'r')
  await handle.sync().finally(() => handle.close())
}

async function describe(
  burrow: MicrovmBurrow,
  { id, kind }: TakeSnapshot,
  { base, volumeLocks, work, sums }: Work & { base: Base; volumeLocks: VolumeLock[] },
): Promise<Manifest> {
  const { parent, limits, volumes } = burrow.record
  const added = [...Object.keys(sums), `disks/${base.disks.at(-1)}`]
  const sizes = await Promise.all(
    added.map(async (name) => ({ name, bytes: (await stat(join(work.dir, name))).blocks * 512 })),
  )
  const sum = (isMemory: boolean) =>
    sizes
      .filter(({ name }) => name.startsWith('memory/') === isMemory)
      .reduce((all, { bytes }) => all + bytes, 0)
  return {
    formatVersion: MANIFEST_FORMAT_VERSION,
    id,
    sandboxId: burrow.sandboxId as SandboxId,
    kind,
    ...(parent && { parent }),
    createdAt: new Date().toISOString(),
    limits,
    base,
    volumes,
    volumeLocks,
    sums,
    bytes: { images: sum(false), memory: sum(true) },
  }
}

export async function writeSaveIntent(path: string, intent: { snapshotId: SnapshotId; wasFrozen: boolean }) {
  await writeFile(path, JSON.stringify(intent), { mode: 0o600 })
}
