import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { SnapshotPaths } from '../host/layout.ts'
import { unfoldInto } from '../image/fold-images.ts'
import type { FullManifest } from '../storage/manifest.ts'
import type { SnapshotHost } from './snapshot-host.ts'

/** The first results of the sandbox come first. */
const REMOVE_DELAY_MS = 500

interface StoredSnapshot {
  readonly paths: SnapshotPaths
  readonly manifest: FullManifest
}

/**
 * The images of a snapshot as CRIU reads them. Those of a folded snapshot are made in `workDir`, by a program that waits
 * ahead of need, beside the launch of the burrow.
 */
export class RestorableImages implements AsyncDisposable {
  /** Rejects when the images could not be made. */
  readonly directory: Promise<string>
  readonly #host: Pick<SnapshotHost, 'arrivals' | 'unfolder'>
  readonly #workDir: string | undefined

  /** `workDir` is empty. It goes with the burrow. */
  constructor(host: Pick<SnapshotHost, 'arrivals' | 'unfolder'>, snapshot: StoredSnapshot, workDir: string) {
    const isFolded = snapshot.manifest.folded === true
    this.#host = host
    this.#workDir = isFolded ? workDir : undefined
    this.directory = isFolded ? unfold(host, snapshot, workDir) : Promise.resolve(snapshot.paths.images)
    // The restore waits for them, unless its launch fails first.
    this.directory.catch(() => {})
  }

  /** Removes in the background what was made: the sandbox is awake already. */
  async [Symbol.asyncDispose](): Promise<void> {
    const workDir = this.#workDir
    if (workDir === undefined) return
    await this.directory.catch(() => {})
    // What cannot be removed goes with the burrow.
    const remove = () => removeUnfolded(workDir, this.#host.unfolder).catch(() => {})
    setTimeout(() => void remove(), REMOVE_DELAY_MS).unref()
  }
}

async function unfold(
  { arrivals, unfolder }: Pick<SnapshotHost, 'arrivals' | 'unfolder'>,
  { paths, manifest }: StoredSnapshot,
  workDir: string,
): Promise<string> {
  // Pages that are still on their way read as zeros.
  await arrivals.requireInTime(manifest.id)
  const names = manifest.images.map(({ name }) => name)
  let isBegun = false
  await unfolder.use(async (worker) => {
    if (isBegun) await empty(workDir)
    isBegun = true
    await unfoldInto(paths, { names, into: workDir, worker })
  })
  return workDir
}

async function empty(directory: string): Promise<void> {
  for (const name of await readdir(directory)) await rm(join(directory, name))
}

/** In one go: removing them one by one would occupy the server for milliseconds. */
async function removeUnfolded(directory: string, unfolder: SnapshotHost['unfolder']): Promise<void> {
  const names = await readdir(directory)
  await unfolder.use((worker) => worker.unlinkBeneath(directory, names))
}
