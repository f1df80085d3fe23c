import { randomBytes } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { chmod, chown, copyFile, link } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type BurrowLimits, DormouseError, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import type { ParkedConnections, ProgramSettings, VolumeMount } from '@dormouse/engine'
import {
  BurrowEnds,
  type MemoryMount,
  RUNTIME_PYTHON,
  withoutBytes,
} from '@dormouse/engine-linux/for-engines'
import { type MicrovmRecord, writeRecord } from '../burrow/burrow-record.ts'
import { startVolumeServer, stateName } from '../burrow/burrow-volumes.ts'
import { type HeldQemu, holdQemu, openDisks, showFiles } from '../burrow/hold-qemu.ts'
import { refuseLimits } from '../burrow/host-limits.ts'
import { memoryPlace } from '../burrow/memory-place.ts'
import { MicrovmBurrow } from '../burrow/microvm-burrow.ts'
import { type MountPlan, mountVolumes, planMounts } from '../burrow/mount-volumes.ts'
import { removeBurrow } from '../burrow/remove-burrow.ts'
import { sparesOf } from '../burrow/spare-pool.ts'
import type { MicrovmBurrowPaths, SavedPaths } from '../host/microvm-layout.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { connectWhenMade } from '../qemu/connect-socket.ts'
import { JAIL } from '../qemu/qemu-arguments.ts'
import type { QmpClient } from '../qemu/qmp-client.ts'
import { type Base, disksOf, type MountedVolume } from '../storage/manifest.ts'

/** Emulated, on a machine with other work. With KVM a boot takes a second or two. */
const BOOT_TIMEOUT_MS = 600_000
const STATE_POLL_MS = 2
const HUNG_UP = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE'])
const SEED_BYTES = 64
/** As many as one frame of the link can name. */
const KEPT_CONNECTIONS_MAX = 128

export interface Introduction {
  readonly sandboxId: SandboxId
  readonly reason: 'create' | 'resume' | 'fork' | 'rollback'
  readonly reseed: boolean
  readonly user?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
  /** How programs start in a guest that boots. */
  readonly image?: ProgramSettings | undefined
}

export interface MakeBurrow {
  readonly base: Base
  /** Where its disks, memory and devices are. Without devices (`state`) the guest boots. */
  readonly source: SavedPaths | undefined
  readonly isBoot: boolean
  readonly parent?: SnapshotId | undefined
  readonly limits: BurrowLimits
  /** Those that it was saved with. */
  readonly hadLimits?: BurrowLimits | undefined
  readonly introduction: Introduction
  readonly leave?: 'running' | 'frozen'
  readonly volumes?: readonly VolumeMount[] | undefined
  /** Those that its memory has mounted, and whose open files are in `source`. */
  readonly hadVolumes?: readonly MountedVolume[] | undefined
  /** Those of its connections to the outside that continue. */
  readonly connections?: ParkedConnections | undefined
  /** Only for its files: programs stand still and do not learn of it, and no later server adopts it. */
  readonly isForFiles?: boolean | undefined
  readonly signal?: AbortSignal | undefined
}

/** Makes a burrow from a snapshot, a booted template, or only disks. On failure nothing of it is left. */
export async function makeBurrow(host: MicrovmHost, make: MakeBurrow): Promise<MicrovmBurrow> {
  const { base, isBoot, limits, signal } = make
  signal?.throwIfAborted()
  refuseLimits(limits, base.machine)
  const qemu = await takeQemu(host, make).catch((error: unknown) => {
    throw reasonOf(error, signal)
  })
  const plan = planMounts(isBoot ? [] : (make.hadVolumes ?? []), make.volumes ?? [])
  let ends: BurrowEnds | undefined
  let shown: MemoryMount | undefined
  try {
    const record = recordOf(make, qemu, plan)
    await writeRecord(qemu.paths.record, record)
    await prepareFiles(qemu.paths, record, make)
    shown = await showArriving(host, qemu, make)
    const memoryDir = isBoot ? undefined : (shown?.directory ?? qemu.paths.memory)
    await showFiles(host, qemu, { base: record.base, limits, memoryDir })
    shown?.hide()
    const loading = isBoot ? undefined : await listenForDevices(qemu)
    await takeSockets(qemu.paths)
    await openDisks(qemu, record.base)
    if (loading !== undefined && make.source !== undefined)
      await loadDevices(qemu, loading, make.source.state)
    // Before the guest runs: a connection whose other end is missing when the guest sends would be reset.
    ends = await makeEnds(host, record, make.connections)
    await startVolumes(host, qemu, plan, make.source)
    await qemu.qmp.execute('cont')
    const kept = withoutBytes(ends?.records ?? Buffer.alloc(0))
    // At once: a guest that is frozen afterwards has acknowledged by then what was on the way.
    await ends?.start()
    // One that only reads files must not keep a server from ending.
    const isSlow = isBoot || (shown !== undefined && make.isForFiles !== true)
    await qemu.link.greet(isSlow ? BOOT_TIMEOUT_MS : undefined, signal)
    const burrow = new MicrovmBurrow(host, qemu.paths, record, qemu, ends)
    await introduce(burrow, make, { kept, plan })
    signal?.throwIfAborted()
    if (make.isForFiles !== true) await burrow.publish()
    if (make.leave === 'frozen') await burrow.freeze()
    return burrow
  } catch (error) {
    ends?.discard()
    // Before it is hidden this ends what shows the files; afterwards the end of QEMU does.
    shown?.channel.destroy()
    qemu.link.close()
    qemu.qmp.close()
    await removeBurrow(host, qemu.paths, qemu.first)
    throw reasonOf(error, signal)
  }
}

/** QEMU sees memory files that are still on their way: it waits for pages that are missing. */
async function showArriving(
  { arrivals }: MicrovmHost,
  { paths }: HeldQemu,
  { isBoot, parent }: MakeBurrow,
): Promise<MemoryMount | undefined> {
  if (isBoot || parent === undefined) return undefined
  return arrivals.mountFor(parent)?.(memoryPlace(paths))
}

function takeQemu(host: MicrovmHost, { base, source, isBoot, signal }: MakeBurrow): Promise<HeldQemu> {
  const ownTools = source && join(source.disks, base.toolsDisk)
  // Those of another host: no spare has them.
  const isForeign = ownTools !== undefined && existsSync(ownTools)
  const hold = {
    toolsDisk: isForeign ? ownTools : join(host.layout.disksDir, base.toolsDisk),
    ...{ machine: base.machine, isIncoming: !isBoot, signal },
    ...(base.isImage && { python: `/.dormouse/${RUNTIME_PYTHON}` }),
  }
  return isBoot || isForeign ? holdQemu(host, hold) : sparesOf(host).take(hold)
}

function reasonOf(error: unknown, signal?: AbortSignal): unknown {
  if (!signal?.aborted) return error
  return new DormouseError('cancelled', 'The start was cancelled.', { cause: signal.reason })
}

function recordOf(
  { base, isBoot, parent, limits, introduction }: MakeBurrow,
  { paths, uid, first }: HeldQemu,
  { mounts }: MountPlan,
): MicrovmRecord {
  return {
    formatVersion: 1,
    id: paths.id,
    sandboxId: introduction.sandboxId,
    base: isBoot ? { ...base, memory: [] } : base,
    uid,
    first,
    ...(parent && { parent }),
    limits,
    volumes: [...mounts],
    createdAt: new Date().toISOString(),
    state: 'starting',
  }
}

/** Links, not copies: any number of burrows share disks and memory files, and the last link frees one. */
async function prepareFiles(
  paths: MicrovmBurrowPaths,
  { base }: MicrovmRecord,
  { source, isBoot }: Pick<MakeBurrow, 'source' | 'isBoot'>,
): Promise<void> {
  if (source === undefined) return
  await linkExisting(source.disks, paths.disks, disksOf(base))
  if (isBoot) return
  await linkExisting(source.memory, paths.memory, base.memory)
  await copyFile(source.map, paths.map)
  await chmod(paths.map, 0o644)
}

/** Those of the template stay where they are: its directory may be on another file system. */
export async function linkExisting(from: string, to: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    if (!existsSync(join(from, name))) continue
    await link(join(from, name), join(to, name)).catch((error: NodeJS.ErrnoException) => {
      // A booted template on another file system.
      if (error.code !== 'EXDEV') throw error
    })
  }
}

/** Connects to QEMU, which maps the memory files before it listens for the state of its devices. */
async function listenForDevices({ qmp, first, paths }: HeldQemu): Promise<Socket> {
  await ignoreMemory(qmp)
  await qmp.execute('migrate-incoming', { uri: `unix:${JAIL.incoming}` })
  const isOver = async () => !existsSync(`/proc/${first.pid}`)
  const socket = await connectWhenMade(join(paths.run, 'incoming.sock'), isOver)
  // QEMU may end before anything is sent.
  socket.on('error', () => {})
  return socket
}

async function loadDevices({ qmp }: HeldQemu, socket: Socket, state: string): Promise<void> {
  await pipeline(createReadStream(state), socket).catch((error: NodeJS.ErrnoException) => {
    // QEMU hangs up when it has read the last byte, or when it fails. It says which below.
    if (!HUNG_UP.has(error.code ?? '')) throw error
  })
  await waitForMigration(qmp)
}

/** QEMU believes that the memory is a shared file, and leaves it alone. */
export async function ignoreMemory(qmp: QmpClient): Promise<void> {
  const capabilities = [{ capability: 'x-ignore-shared', state: true }]
  await qmp.execute('migrate-set-capabilities', { capabilities })
}

export async function waitForMigration(qmp: QmpClient): Promise<void> {
  for (;;) {
    const answer = (await qmp.execute('query-migrate')) as { status?: unknown; 'error-desc'?: unknown }
    if (answer.status === 'completed') return
    if (answer.status === 'failed' || answer.status === 'cancelled')
      throw new DormouseError(
        'restore_failed',
        `QEMU: ${String(answer['error-desc'] ?? answer.status).slice(0, 500)}`,
      )
    await sleep(STATE_POLL_MS)
  }
}

/** Before the guest runs: a lock that another sandbox has by now prevents the wake, and the sandbox stays asleep. */
async function startVolumes(
  host: MicrovmHost,
  { paths, cgroup }: HeldQemu,
  { mounts, kept }: MountPlan,
  source: SavedPaths | undefined,
): Promise<void> {
  for (const mount of mounts) {
    const { number } = mount
    const saved = kept.has(number) && source ? join(source.volumes, stateName(number)) : undefined
    const state = saved !== undefined && existsSync(saved) ? saved : undefined
    await startVolumeServer(host, paths, { cgroup, mount, state })
  }
}

/** From now on QEMU can replace none of the sockets that this process connects to. */
async function takeSockets(paths: MicrovmBurrowPaths): Promise<void> {
  await chown(paths.run, 0, 0)
  await chmod(paths.run, 0o755)
}

/** A sandbox without its connections is better than none. */
async function makeEnds(
  { failures }: MicrovmHost,
  { first, sandboxId, id: burrowId }: MicrovmRecord,
  connections: ParkedConnections = [],
): Promise<BurrowEnds | undefined> {
  if (first === undefined || connections.length === 0) return undefined
  return BurrowEnds.make(first, connections.slice(0, KEPT_CONNECTIONS_MAX)).catch((error: unknown) => {
    const fields = { sandboxId, burrowId }
    failures.report('network', error, fields, 'connections of a restored burrow do not continue')
    return undefined
  })
}

/** Tells the guest the time, its name and its limits, gives it new random numbers, and then the agent who it is. */
async function introduce(
  burrow: MicrovmBurrow,
  { introduction, limits, hadLimits = limits, isBoot, isForFiles }: MakeBurrow,
  { kept, plan }: { readonly kept: Buffer; readonly plan: MountPlan },
): Promise<void> {
  const { sandboxId, reason, reseed, image } = introduction
  // What the caller asks for comes before what the image says.
  const user = introduction.user ?? (isBoot ? image?.user : undefined)
  const env = isBoot && image !== undefined ? { ...image.env, ...introduction.env } : introduction.env
  const { link: guest } = burrow
  // Machines that an earlier version booted do not know this. Their programs run, but reach no network.
  if (isForFiles === true) await guest.control('hold').catch(() => {})
  if (limits.memoryBytes < hadLimits.memoryBytes) await burrow.requireRoom(limits)
  await Promise.all([
    // First: until then, programs of all that started from this snapshot draw the same random numbers.
    guest.control(`seed ${randomBytes(SEED_BYTES).toString('hex')}`),
    guest.control(`time ${BigInt(Date.now()) * 1_000_000n}`),
    guest.control(`hostname ${sandboxId}`),
    // The other ends of most connections that its memory brought back no longer exist.
    guest.control(`hang-up ${kept.toString('hex')}`),
    burrow.applyLimits(limits),
  ])
  await mountVolumes(guest, plan)
  await burrow.volumes.connect()
  if (isForFiles === true) return
  const identity = { sandboxId, ...(user && { user }), ...(env && { env }) }
  if (isBoot) await burrow.guest.configure({ ...identity, ...(image && { cwd: image.cwd }) })
  else await burrow.guest.wake({ ...identity, reason, reseed })
}
