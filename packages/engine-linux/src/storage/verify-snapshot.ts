import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { isArriving } from '../arrival/arriving-files.ts'
import { compareVersions } from '../criu/find-criu.ts'
import type { SnapshotPaths } from '../host/layout.ts'
import { PageWorker } from '../image/page-worker.ts'
import { mismatch, readFingerprint } from './fingerprint.ts'
import type { FullManifest } from './manifest.ts'

interface Verified {
  /** A digest of inodes, sizes and times of its files when they were verified. */
  readonly attributes: string
  readonly done: Promise<void>
}

/**
 * Snapshots that were verified, by directory. Reading the images takes about as long as restoring them, so unchanged
 * files are not read again.
 */
export class VerifiedSnapshots {
  readonly #verified = new Map<string, Verified>()

  /** Refuses a snapshot that cannot be restored here, before anything starts. */
  async verifyOnce(paths: SnapshotPaths, manifest: FullManifest): Promise<void> {
    const attributes = readAttributes(paths, manifest)
    const known = this.#verified.get(paths.dir)
    if (known?.attributes === attributes) return known.done
    const done = verifySnapshot(paths, manifest)
    this.#verified.set(paths.dir, { attributes, done })
    // A damaged file may be repaired, so the next restore verifies it again.
    done.catch(() => this.#verified.delete(paths.dir))
    return done
  }

  /**
   * For a snapshot whose checksums were just made here. Checksums of memory files that it shares may be older, so their
   * times are compared.
   */
  remember(paths: SnapshotPaths, manifest: FullManifest): void {
    const isUntouched = ({ name, mtimeNs }: FullManifest['memory'][number]) =>
      statSync(join(paths.memory, name), { bigint: true, throwIfNoEntry: false })?.mtimeNs === mtimeNs
    if (!manifest.memory.every(isUntouched)) return
    this.#verified.set(paths.dir, { attributes: readAttributes(paths, manifest), done: Promise.resolve() })
  }

  forget(paths: SnapshotPaths): void {
    this.#verified.delete(paths.dir)
  }
}

/** Synchronous: a few hundred calls of a microsecond each. */
function readAttributes(paths: SnapshotPaths, manifest: FullManifest): string {
  const files = listFiles(paths, manifest).map(({ path, what, checksum }) => {
    const found = statSync(path, { throwIfNoEntry: false, bigint: true })
    return `${what} ${checksum} ${found && `${found.ino} ${found.size} ${found.mtimeNs}`}`
  })
  const text = [JSON.stringify(manifest.fingerprint), ...files].join('\n')
  // Thousands of snapshots are remembered, with two kilobytes of text each.
  return createHash('sha1').update(text).digest('base64')
}

export interface ExpectedFile {
  readonly path: string
  /** What the file is, for error messages. */
  readonly what: string
  readonly sizeBytes: number
  readonly checksum: string
  readonly mtimeNs?: bigint
}

/** The files of a snapshot, except its file layers. */
export function listFiles(paths: SnapshotPaths, manifest: FullManifest): ExpectedFile[] {
  const { images, memory, carried } = manifest
  return [
    ...images.map((image) => ({ ...image, what: image.name, path: join(paths.images, image.name) })),
    ...memory.map((file) => ({
      ...file,
      what: `the memory file ${file.name}`,
      path: join(paths.memory, file.name),
    })),
    ...(carried === undefined
      ? []
      : [{ ...carried, what: 'the list of carried files', path: paths.carried }]),
  ]
}

/**
 * Images are always read. Memory files can be as large as memory itself, so their content is read only when their
 * modification time is not the recorded one: they were edited, or copied without their times. `checkPart` always reads
 * them.
 */
export async function verifySnapshot(paths: SnapshotPaths, manifest: FullManifest): Promise<void> {
  const reason = mismatch(manifest.fingerprint, await readFingerprint())
  if (reason !== undefined) throw unusable(reason)
  const doubtful = listFiles(paths, manifest).filter((file) => {
    const found = statSync(file.path, { throwIfNoEntry: false, bigint: true })
    if (found === undefined) throw damaged(`${file.what} is missing`)
    if (Number(found.size) !== file.sizeBytes)
      throw damaged(`${file.what} has ${found.size} bytes instead of ${file.sizeBytes}`)
    // Each chunk that arrives is checked, and the whole file when all have arrived.
    return found.mtimeNs !== file.mtimeNs && !isArriving(paths.dir, file.path)
  })
  await using worker = new PageWorker()
  const sums = await worker.sum(doubtful.map(({ path }) => path))
  for (const [index, { what, checksum }] of doubtful.entries())
    if (sums[index]?.checksum !== checksum) throw damaged(`${what} is damaged`)
}

/** A newer CRIU reads images of an older one, but not the other way round. */
export function refuseNewerCriu({ criuVersion }: FullManifest, here: string): void {
  if (compareVersions(criuVersion, here) > 0)
    throw unusable(`it was taken with CRIU ${criuVersion}, and this is ${here}, which is older`)
}

/** Like `unusable`, for a snapshot that no host could restore: its bytes have changed. */
export function damaged(reason: string, cause?: unknown): DormouseError {
  return new DormouseError('snapshot_unusable', `The snapshot cannot be restored: ${reason}.`, {
    details: { reason, damaged: true },
    cause,
  })
}

export function unusable(reason: string, cause?: unknown): DormouseError {
  return new DormouseError('snapshot_unusable', `The snapshot cannot be restored: ${reason}.`, {
    details: { reason },
    cause,
  })
}
