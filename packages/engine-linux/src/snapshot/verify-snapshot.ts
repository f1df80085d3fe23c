import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { SnapshotPaths } from '../burrow/layout.ts'
import { mismatch, readFingerprint } from './fingerprint.ts'
import type { Manifest } from './manifest.ts'

interface Verified {
  /** How its files looked from outside. */
  readonly looks: string
  readonly done: Promise<void>
}

/** By directory. Reading all of a snapshot takes longer than restoring it, so what has not been touched is not read again. */
const verified = new Map<string, Verified>()

export async function verifyOnce(paths: SnapshotPaths, manifest: Manifest): Promise<void> {
  const looks = lookAt(paths, manifest)
  const known = verified.get(paths.dir)
  if (known?.looks === looks) return known.done
  const done = verifySnapshot(paths, manifest)
  verified.set(paths.dir, { looks, done })
  // What was refused may be mended.
  done.catch(() => verified.delete(paths.dir))
  return done
}

/** Synchronous: some hundred calls of a microsecond each. */
function lookAt(paths: SnapshotPaths, manifest: Manifest): string {
  const look = (path: string) => {
    const found = statSync(path, { throwIfNoEntry: false })
    return found === undefined ? 'missing' : `${found.ino} ${found.size} ${found.mtimeMs}`
  }
  return [
    JSON.stringify(manifest.fingerprint),
    ...manifest.images.map(({ name, sha256 }) => `${name} ${sha256} ${look(join(paths.images, name))}`),
    ...manifest.memory.map(({ name, sizeBytes }) => `${name} ${sizeBytes} ${look(join(paths.memory, name))}`),
  ].join('\n')
}

/**
 * Refuses a snapshot that cannot be restored here, before anything starts. Images are checked byte by byte. Memory files can be
 * as large as memory itself: their presence and size is checked, their content is not.
 */
async function verifySnapshot(paths: SnapshotPaths, manifest: Manifest): Promise<void> {
  const reason = mismatch(manifest.fingerprint, await readFingerprint())
  if (reason !== undefined) throw unusable(reason)
  await Promise.all([
    ...manifest.images.map(async ({ name, sizeBytes, sha256 }) => {
      const content = await readFile(join(paths.images, name)).catch((cause) => {
        throw unusable(`${name} is missing`, cause)
      })
      if (content.byteLength !== sizeBytes)
        throw unusable(`${name} has ${content.byteLength} bytes instead of ${sizeBytes}`)
      if (createHash('sha256').update(content).digest('hex') !== sha256) throw unusable(`${name} is damaged`)
    }),
    ...manifest.memory.map(async ({ name, sizeBytes }) => {
      const { size } = await stat(join(paths.memory, name)).catch((cause) => {
        throw unusable(`the memory file ${name} is missing`, cause)
      })
      if (size !== sizeBytes)
        throw unusable(`the memory file ${name} has ${size} bytes instead of ${sizeBytes}`)
    }),
  ])
}

export function unusable(reason: string, cause?: unknown): DormouseError {
  return new DormouseError('snapshot_unusable', `The snapshot cannot be restored: ${reason}.`, {
    details: { reason },
    cause,
  })
}
