import { createWriteStream } from 'node:fs'
import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { DormouseError } from '@dormouse/contracts'
import {
  type BurrowCgroup,
  burrowFilters,
  startProgram,
  UID_BASE,
  UID_COUNT,
  type VolumeLock,
  volumeLockSchema,
} from '@dormouse/engine-linux/for-engines'
import type { MicrovmBurrowPaths } from '../host/microvm-layout.ts'
import type { GuestLink } from '../link/guest-link.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { volumeServerProgram } from '../native-programs.ts'
import { connectSocket } from '../qemu/connect-socket.ts'
import type { MountedVolume } from '../storage/manifest.ts'

/** Numbers of files that a guest can remember, and the content of its deleted files: see native/src/volume-records.h. */
const STATE_MAX_BYTES = 512 * 1024 ** 2
const HEADER_MAX_BYTES = 1024 ** 2

/** The process that answers for a volume; it outlives this one, as the guest does. */
export async function startVolumeServer(
  host: MicrovmHost,
  paths: MicrovmBurrowPaths,
  start: {
    readonly cgroup: BurrowCgroup
    readonly mount: MountedVolume
    readonly state?: string | undefined
  },
): Promise<void> {
  const { cgroup, mount, state } = start
  const { volumeId, readOnly, number } = mount
  const sockets = socketsOf(paths, number)
  const file = state === undefined ? undefined : await open(state, 'r')
  try {
    const program = startProgram({
      argv: [
        volumeServerProgram,
        ...cgroup.directories.flatMap((directory) => ['--cgroup', directory]),
        ...burrowFilters.flatMap((filter) => ['--filter', filter]),
        ...['--volume', join(host.layout.volumesDir, volumeId), readOnly ? 'ro' : 'rw'],
        ...['--ids', String(UID_BASE), String(UID_COUNT)],
        ...['--requests', sockets.requests, '--control', sockets.control],
      ],
      env: {},
      isDetached: true,
      stdio: [file?.fd ?? 'ignore', 'pipe', 'ignore'],
    })
    let said = ''
    program.streams[1]?.on('data', (chunk: Buffer) => {
      said += chunk.toString('utf8')
    })
    await program.closed
    if (!said.startsWith('ready')) throw notStarted(said, mount)
  } finally {
    await file?.close()
  }
}

/** The volumes of a burrow, between its guest and the processes that answer. */
export class BurrowVolumes {
  readonly #paths: MicrovmBurrowPaths
  readonly #link: GuestLink
  readonly #mounts: readonly MountedVolume[]
  #connections: { destroy(): void }[] = []
  #isConnected = false

  constructor(paths: MicrovmBurrowPaths, link: GuestLink, mounts: readonly MountedVolume[]) {
    this.#paths = paths
    this.#link = link
    this.#mounts = mounts
  }

  /** Pre: the guest runs. What an earlier connection left unanswered is sent again. */
  async connect(): Promise<void> {
    if (this.#isConnected) return
    this.#isConnected = true
    try {
      await Promise.all(this.#mounts.map((mount) => this.#join(mount)))
    } catch (error) {
      this.disconnect()
      throw error
    }
  }

  disconnect(): void {
    this.#isConnected = false
    for (const connection of this.#connections.splice(0)) connection.destroy()
  }

  /** Post: a file for each in `directory`. Pre: the guest stands still. Nothing is answered until `connect`. */
  async save(directory: string): Promise<VolumeLock[]> {
    if (this.#mounts.length === 0) return []
    this.disconnect()
    await mkdir(directory)
    const saved = await Promise.all(this.#mounts.map((mount) => this.#save(mount, directory)))
    return saved.flat()
  }

  async #join({ number }: MountedVolume): Promise<void> {
    const stream = await this.#link.open({ volume: number })
    const socket = await connectSocket(socketsOf(this.#paths, number).requests)
    this.#connections.push(stream, socket)
    socket.on('error', () => stream.destroy())
    socket.once('close', () => stream.destroy())
    stream.once('close', () => socket.destroy())
    stream.pipe(socket)
    socket.pipe(stream)
  }

  async #save(mount: MountedVolume, directory: string): Promise<VolumeLock[]> {
    const socket = await connectSocket(socketsOf(this.#paths, mount.number).control).catch(hasEnded)
    // Without a state the next process knows no file that the guest has open; a sandbox that cannot sleep is worse.
    if (socket === undefined) return []
    const header = new HeaderReader()
    const file = createWriteStream(join(directory, stateName(mount.number)), {
      ...{ flags: 'wx', mode: 0o600, flush: true },
    })
    await pipeline(socket, header, file)
    const [first = '', ...lines] = header.text.split('\n')
    if (!first.startsWith('dormouse-volume '))
      throw refused(first.startsWith('error ') ? first.slice(6) : 'the volume did not answer', mount.path)
    return lines.filter((line) => line.startsWith('lock ')).map((line) => readLock(line, mount))
  }
}

/** Undefined when the process of the volume has ended. */
function hasEnded(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT') throw error
  return undefined
}

export const stateName = (number: number) => `volume-${number}`

function socketsOf({ runParent }: MicrovmBurrowPaths, number: number) {
  return {
    requests: join(runParent, `volume-${number}.sock`),
    control: join(runParent, `volume-${number}-control.sock`),
  }
}

/** Passes the state on, bounded, and keeps the text before its first empty line. */
class HeaderReader extends Transform {
  text = ''
  #bytes = 0
  #isOver = false

  override _transform(chunk: Buffer, _encoding: string, done: (error?: Error | null, data?: Buffer) => void) {
    this.#bytes += chunk.length
    if (this.#bytes > STATE_MAX_BYTES) return done(new Error('the state of a volume is too large'))
    if (!this.#isOver && this.text.length < HEADER_MAX_BYTES) {
      this.text += chunk.toString('latin1')
      const end = this.text.indexOf('\n\n')
      if (end !== -1) this.text = this.text.slice(0, end)
      this.#isOver = end !== -1
    }
    return done(null, chunk)
  }
}

/** See native/src/volume-state.c. */
function readLock(line: string, { path }: MountedVolume): VolumeLock {
  const [, kind, type, start, end, inode, sizeBytes, modifiedNs, hex = ''] = line.split(' ')
  const inside = Buffer.from(hex, 'hex').toString('utf8')
  return volumeLockSchema.parse({
    ...{ path: `${path}/${inside}`, kind, type, start, end, inode, sizeBytes, modifiedNs },
  })
}

function refused(reason: string, path: string): DormouseError {
  return new DormouseError('snapshot_refused', `The sandbox cannot be saved: at ${path}, ${reason}.`, {
    details: { reason, path },
  })
}

function notStarted(said: string, { path, volumeId }: MountedVolume): DormouseError {
  const details = { path, volumeId }
  if (said.startsWith('error lock'))
    return new DormouseError('in_use', `Another sandbox holds a lock on a file below ${path}.`, { details })
  const why = said.trim().slice(0, 200) || 'no reason given'
  return new DormouseError('burrow_start_failed', `The volume at ${path} is not served: ${why}`, { details })
}
