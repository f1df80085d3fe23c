import { posix } from 'node:path'
import { Limiter } from '@dormouse/async'
import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { FileStat, OpenFile, SnapshotFiles } from '@dormouse/engine'
import { FilesProgram } from '../host/files-program.ts'
import { endingWith, untilRead } from '../host/until-read.ts'
import { whileReading } from '../storage/snapshot-readers.ts'
import { getTemplateBuild } from '../template/template-store.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'

/** A listing is collected before it is returned: the process that makes it must not wait for a slow reader. */
const ENTRIES_MAX = 100_000
const LENGTH_MAX = 2 ** 48
/** Each read is a process with a mount. The others wait; snapshots take turns. */
const limiter = new Limiter({
  concurrency: 16,
  maxQueued: 256,
  maxWaitMs: 30_000,
  refuse: (_refusal, signal) =>
    new DormouseError(
      signal?.aborted ? 'cancelled' : 'overloaded',
      'Too many files of sleeping sandboxes are read.',
    ),
})

/** Files of a stored snapshot, read without restoring it. See native/src/files.c. */
export function snapshotFiles(engine: SnapshotEngine, id: SnapshotId): SnapshotFiles {
  return {
    stat: (path, { follow = true, ...as } = {}) =>
      withProgram(engine, id, [follow ? 'stat' : 'link', path], as, async (program) => {
        const [found] = await program.entries()
        if (found === undefined)
          throw new DormouseError('internal', 'A file of a snapshot was not described.')
        return shown(found)
      }),
    async *list(path, { depth = 1, ...as } = {}) {
      const action = ['list', path, String(depth), String(ENTRIES_MAX)]
      const entries = await withProgram(engine, id, action, as, (program) => program.entries())
      if (entries.length === ENTRIES_MAX)
        throw new DormouseError('too_large', `${path}: more than ${ENTRIES_MAX} entries`, {
          hint: 'List less depth, or wake the sandbox.',
        })
      for (const entry of entries) yield shown(entry)
    },
    open: (path, { offset = 0, length = LENGTH_MAX, ...as } = {}) =>
      new Promise<OpenFile>((resolve, reject) => {
        // The snapshot stays until the last byte is read.
        const action = ['read', path, String(offset), String(length)]
        withProgram(engine, id, action, as, async (program) => {
          const stat = shown(await program.entry())
          await untilRead((onEnd) => resolve({ stat, data: endingWith(program.bytes(), onEnd) }), as.signal)
        }).catch(reject)
      }),
  }
}

interface As {
  readonly user?: string
  readonly signal?: AbortSignal
}

async function withProgram<Value>(
  engine: SnapshotEngine,
  id: SnapshotId,
  action: readonly string[],
  { user = 'root', signal }: As,
  work: (program: FilesProgram) => Promise<Value>,
): Promise<Value> {
  const { layout } = engine.host
  const read = async () => {
    const { manifest } = await engine.store.get(id)
    await engine.store.checkLayers(manifest)
    const { rootfs, manifest: template } = await getTemplateBuild(engine.dataDir, manifest.template)
    const layers = [...manifest.layers.map((layer) => layout.layer(layer)), rootfs]
    await using program = FilesProgram.start({
      ids: { base: template.uidBase, count: template.uidCount },
      layersDir: layout.layersDir,
      mountPoint: layout.rootMountPoint,
      ...{ layers, user, action, signal },
    })
    return await work(program)
  }
  const options = { key: id, signal }
  return limiter.run(() => whileReading(layout.snapshot(id).dir, read), options)
}

function shown(stat: FileStat): FileStat {
  const path = posix.normalize(stat.path)
  return { ...stat, path: path.length > 1 ? path.replace(/\/$/, '') : path, name: posix.basename(path) }
}
