import { open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { ImageSource } from '@dormouse/engine'
import { removeTree } from '../host/publish-directory.ts'
import { runCommand, runCommandOrFail } from '../host/run-command.ts'
import { AS_PULL_USER, PULL_UID } from './skopeo.ts'

export interface CopySource {
  readonly source: ImageSource
  readonly directory: string
  readonly maxBytes: number
  readonly signal?: AbortSignal | undefined
}

/** Where the copy of an image on disk is. */
export function sourceIn(directory: string): string {
  return join(directory, 'source')
}

/** skopeo may not be able to read what root can, so it gets a copy of an image on disk. Returns its reference. */
export async function copySource(copy: CopySource): Promise<string> {
  const { source, directory } = copy
  const [, path = '', tag = ''] = /^[a-z-]+:(\/[^:]*)(:.*)?$/.exec(source.reference) ?? []
  const to = sourceIn(directory)
  await copyIn(path, to)
  // skopeo 1.9 fails on such an archive.
  if (source.transport === 'docker-archive' && (await isGzip(to))) await decompress(to, copy)
  return `${source.transport}:${to}${tag}`
}

/** Copies a file or a directory so that skopeo can read it. */
export async function copyIn(path: string, to: string): Promise<void> {
  await removeTree(to)
  const argv = ['cp', '-rL', '--reflink=auto', '--no-preserve=all', '-T', '--', path, to] as const
  const { exitCode, tail } = await runCommand({ argv })
  if (exitCode !== 0) {
    const code = isFullDisk(tail) ? 'no_space' : 'setup_failed'
    throw new DormouseError(code, `${path} cannot be copied: ${tail.join(' ')}`)
  }
  await runCommandOrFail({ argv: ['chown', '-R', `${PULL_UID}:${PULL_UID}`, to] }, 'copying the image')
}

export function isFullDisk(tail: readonly string[]): boolean {
  return tail.some((line) => /no space left on device|disk quota exceeded/i.test(line))
}

async function isGzip(path: string): Promise<boolean> {
  await using file = await open(path)
  const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0)
  return buffer[0] === 0x1f && buffer[1] === 0x8b
}

async function decompress(path: string, { source, maxBytes, signal }: CopySource): Promise<void> {
  const plain = `${path}.tar`
  // The shell counts in pieces of 512 bytes.
  const script = 'ulimit -f "$1" && exec gzip -dc > "$2"'
  const argv = [...AS_PULL_USER, 'sh', '-c', script, 'sh', String(Math.ceil(maxBytes / 512)), plain] as const
  const { exitCode, tail } = await runCommand({ argv, stdinFile: path, signal })
  if (exitCode !== 0) {
    const code = isFullDisk(tail) ? 'no_space' : 'setup_failed'
    const why = `it is damaged, or larger than ${maxBytes} bytes`
    throw new DormouseError(code, `${source.reference} cannot be decompressed: ${why}.`)
  }
  await rename(plain, path)
}
