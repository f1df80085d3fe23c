import { posix } from 'node:path'
import { Limiter } from '@dormouse/async'
import { DormouseError, type VolumeId } from '@dormouse/contracts'
import type { FileStat, OpenFile, VolumeFiles } from '@dormouse/engine'
import type { FilesProgram } from '../host/files-program.ts'
import { endingWith, untilRead } from '../host/until-read.ts'
import { startVolumeProgram } from './volume-program.ts'

const ENTRIES_MAX = 100_000
const LENGTH_MAX = 2 ** 48
/** A client that sends gigabytes may take this long. */
const WRITE_MAX_MS = 24 * 3600_000
/** Each call is a process. The others wait; volumes take turns. */
const limiter = new Limiter({
  concurrency: 16,
  maxQueued: 256,
  maxWaitMs: 30_000,
  refuse: (_refusal, signal) =>
    new DormouseError(signal?.aborted ? 'cancelled' : 'overloaded', 'Too many files of volumes are in use.'),
})

type Action = readonly [string, string, ...string[]]

/** Files of a volume, without a burrow. `find` returns its directory, or throws `not_found`. */
export function filesInVolume(find: () => Promise<string>, key: VolumeId): VolumeFiles {
  const run = <Value>(
    action: Action,
    { signal, lifeMs }: { signal?: AbortSignal | undefined; lifeMs?: number },
    work: (program: FilesProgram) => Promise<Value>,
  ) =>
    limiter.run(
      async () => {
        const options = { signal, ...(lifeMs !== undefined && { lifeMs }) }
        await using program = startVolumeProgram(await find(), action, options)
        return await work(program)
      },
      { key, signal },
    )
  const one = async (program: FilesProgram) => {
    const [found] = await program.entries()
    if (found === undefined) throw new DormouseError('internal', 'A file of a volume was not described.')
    return shown(found)
  }
  return {
    stat: (path, { follow = true, signal } = {}) =>
      run([follow ? 'stat' : 'link', rooted(path)], { signal }, one),
    async *list(path, { depth = 1, signal } = {}) {
      const action: Action = ['list', rooted(path), String(depth), String(ENTRIES_MAX)]
      const entries = await run(action, { signal }, (program) => program.entries())
      if (entries.length === ENTRIES_MAX)
        throw new DormouseError('too_large', `${path}: more than ${ENTRIES_MAX} entries`, {
          hint: 'List less depth.',
        })
      for (const entry of entries) yield shown(entry)
    },
    open: (path, { offset = 0, length = LENGTH_MAX, signal } = {}) =>
      new Promise<OpenFile>((resolve, reject) => {
        run(['read', rooted(path), String(offset), String(length)], { signal }, async (program) => {
          const stat = shown(await program.entry())
          await untilRead((onEnd) => resolve({ stat, data: endingWith(program.bytes(), onEnd) }), signal)
        }).catch(reject)
      }),
    write: (path, data, options = {}) => {
      const { mode, append = false, parents = false, bytesMax = LENGTH_MAX, signal } = options
      const how = [flag(parents), flag(append), String(bytesMax)]
      const action: Action = ['write', rooted(path), modeText(mode), ...how]
      return run(action, { signal, lifeMs: WRITE_MAX_MS }, async (program) => {
        await program.send(data)
        return await one(program)
      })
    },
    mkdir: (path, { parents = true, mode, signal } = {}) =>
      run(['mkdir', rooted(path), modeText(mode), flag(parents)], { signal }, one),
    move: ({ from, to }, { overwrite = true, signal } = {}) =>
      run(['move', rooted(from), rooted(to), flag(overwrite)], { signal }, one),
    remove: async (path, { recursive = false, signal } = {}) => {
      await run(['remove', rooted(path), flag(recursive)], { signal }, (program) => program.entries())
    },
  }
}

/** A relative path starts at the root of the volume. */
function rooted(path: string): string {
  return posix.resolve('/', path)
}

function flag(isSet: boolean): string {
  return isSet ? '1' : '0'
}

function modeText(mode: number | undefined): string {
  return mode === undefined ? '-' : String(mode)
}

function shown(stat: FileStat): FileStat {
  const path = posix.normalize(stat.path)
  return { ...stat, path, name: posix.basename(path) }
}
