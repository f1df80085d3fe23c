import { chown, mkdir, open } from 'node:fs/promises'
import { DormouseError } from '@dormouse/contracts'
import { removeTree } from '../host/publish-directory.ts'
import { runCommand } from '../host/run-command.ts'
import { unpackProgram } from '../native-programs.ts'
import { UID_BASE, UID_COUNT } from '../template/shifted-root.ts'

export interface UnpackLayer {
  /** A tar archive, plain or compressed with gzip or zstd. */
  readonly archive: string
  /** Does not exist yet. */
  readonly into: string
  readonly maxBytes: number
  readonly maxFiles: number
  readonly signal?: AbortSignal | undefined
}

/**
 * Unpacks a layer of an image with whiteouts as overlayfs has them, and owners of the sandboxes' range. Returns the
 * digest of the unpacked archive. On failure nothing is left.
 */
export async function unpackLayer({
  archive,
  into,
  maxBytes,
  maxFiles,
  signal,
}: UnpackLayer): Promise<string> {
  const decompressor = await findDecompressor(archive)
  await mkdir(into, { mode: 0o755 })
  try {
    await chown(into, UID_BASE, UID_BASE)
    const limits = [maxBytes, maxFiles].map(String)
    const argv = [unpackProgram, String(UID_BASE), String(UID_COUNT), ...limits, ...decompressor] as const
    const { exitCode, stdout, tail } = await runCommand({ argv, cwd: into, stdinFile: archive, signal })
    if (exitCode !== 0) throw unpackFailed(tail)
    return `sha256:${stdout.trim()}`
  } catch (error) {
    await removeTree(into)
    throw error
  }
}

async function findDecompressor(archive: string): Promise<readonly string[]> {
  await using file = await open(archive)
  const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0)
  if (buffer[0] === 0x1f && buffer[1] === 0x8b) return ['gunzip']
  if (buffer.readUInt32LE() === 0xfd2fb528) return ['zstd', '-dc', '--long=31']
  if (buffer[0] === 0x42 && buffer[1] === 0x5a) return ['bzip2', '-dc']
  return []
}

function unpackFailed(tail: readonly string[]): DormouseError {
  const said = tail
    .map((line) => line.replace(/^error /, ''))
    .join(' ')
    .slice(0, 500)
  const isFull = said.includes('No space left') || said.includes('quota exceeded')
  return new DormouseError(
    isFull ? 'no_space' : 'setup_failed',
    `A layer of the image cannot be unpacked: ${said || 'the unpacking program ended without a reason'}.`,
  )
}
