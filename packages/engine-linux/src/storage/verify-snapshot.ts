import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { compareVersions } from '../criu/find-criu.ts'
import type { SnapshotPaths } from '../host/layout.ts'
import { PageWorker } from '../image/page-worker.ts'
import { mismatch, readFingerprint } from './fingerprint.ts'
import type { FullManifest } from './manifest.ts'

interface Verified {
  /** How its files looked from outside. */
  readonly looks: string
  readonly done: Promise<void>
}

/** By directory. Reading the images takes about as long as restoring them, so what has not been touched is not read again. */
const verified = new Map<string, Verified>()

/** Refuses a snapshot that cannot be restored here, before anything starts. */
export async function verifyOnce(paths: SnapshotPaths, manifest: FullManifest): Promise<void> {
  const looks = lookAt(paths, manifest)
  const known = verified.get(paths.dir)
  if (known?.looks === looks) return known.done
  const done = verifySnapshot(paths, manifest)
  verified.set(paths.dir, { looks, done })
  // What was refused may be mended.
  done.catch(() => verified.delete(paths.dir))
  return done
}

/** For one whose checksums have just been made here; those of memory it shares with others may be older. */
export function rememberVerified(paths: SnapshotPaths, manifest: FullManifest): void {
  const isUntouched = ({ name, mtimeNs }: FullManifest['memory'][number]) =>
    statSync(join(paths.memory, name), { bigint: true, throwIfNoEntry: false })?.mtimeNs === mtimeNs
  if (!manifest.memory.every(isUntouched)) return
  verified.set(paths.dir, { looks: lookAt(paths, manifest), done: Promise.resolve() })
}

export function forgetVerified(paths: SnapshotPaths): void {
  verified.delete(paths.dir)
}

/** Synchronous: some hundred calls of a microsecond each. */
function lookAt(paths: SnapshotPaths, manifest: FullManifest): string {
  const files = listFiles(paths, manifest).map(({ path, what, checksum }) => {
    const found = statSync(path, { throwIfNoEntry: false, bigint: true })
    return `${what} ${checksum} ${found && `${found.ino} ${found.size} ${found.mtimeNs}`}`
  })
  return [JSON.stringify(manifest.fingerprint), ...files].join('\n')
}

export interface ExpectedFile {
  readonly path: string
  /** In words, for the reason. */
  readonly what: string
  readonly sizeBytes: number
  readonly checksum: string
  readonly mtimeNs?: bigint
}

/** What a snapshot consists of, but for its file layers. */
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
 * Images are always read. Memory files can be as large as memory itself; their content is read when the time of their last
 * change is not the one on record: they were edited, or copied here without their times. `checkPart` reads them always.
 */
export async function verifySnapshot(paths: SnapshotPaths, manifest: FullManifest): Promise<void> {
  const reason = mismatch(manifest.fingerprint, await readFingerprint())
  if (reason !== undefined) throw unusable(reason)
  const doubtful = listFiles(paths, manifest).filter((file) => {
    const found = statSync(file.path, { throwIfNoEntry: false, bigint: true })
    if (found === undefined) throw damaged(`${file.what} is missing`)
    if (Number(found.size) !== file.sizeBytes)
      throw damaged(`${file.what} has ${found.size} bytes instead of ${file.sizeBytes}`)
    return found.mtimeNs !== file.mtimeNs
  })
  await using worker = new PageWorker()
  const sums = await worker.sum(doubtful.map(({ path }) => path))
  for (const [index, { what, checksum }] of doubtful.entries())
    if (sums[index]?.checksum !== checksum) throw damaged(`${what} is damaged`)
}

/** A newer CRIU reads what an older one wrote, and not the other way round. */
export function refuseNewerCriu({ criuVersion }: FullManifest, here: string): void {
  if (compareVersions(criuVersion, here) > 0)
    throw unusable(`it was taken with CRIU ${criuVersion}, and this is ${here}, which is older`)
}

/** As `unusable`, for what would be found here and anywhere else: its bytes are not what they were. */
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
