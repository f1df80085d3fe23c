import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { DormouseError } from '@dormouse/contracts'
import type { ArrivingPart } from '@dormouse/engine'

export type ArrivingArchive = Extract<ArrivingPart, { kind: 'archive' }>

/** Holes, extended attributes (whiteouts, capabilities, seals), owners by number, times to the nanosecond. */
const TAR = [
  'tar',
  '--format=posix',
  '--numeric-owner',
  '--xattrs',
  '--xattrs-include=*',
  '--sparse',
] as const
const PACK = ['--sort=name', '--pax-option=delete=atime,delete=ctime', '--create', '--file=-'] as const
/** The exit code of tar when it warned that files were not steady. */
const FILES_DIFFER = 1
/**
 * tar compares the time of the last change, which a new hard link sets: each wake links the memory files. Their content
 * never changes, and a host that unpacks them compares checksums before a wake.
 */
const ONLY_CHANGED = /^(?:tar: .*: file changed as we read it\n)+$/
const UNPACK = [
  '--extract',
  '--file=-',
  '--same-owner',
  '--same-permissions',
  '--delay-directory-restore',
] as const
/** Errors of writing to a program that has ended. */
const HAS_ENDED = new Set<string | undefined>(['EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'])
const DISK_IS_FULL = /No space left on device|Wrote only \d+ of \d+ bytes/
const SAID_MAX_CHARACTERS = 64 * 1024
const ERROR_MAX_CHARACTERS = 500

/** Packs files and directories of a directory. Its stream fails when tar does. `exclude`: patterns of names. */
export function pack(
  directory: string,
  names: readonly string[],
  { exclude = [] }: { exclude?: readonly string[] } = {},
): Readable {
  const excluded = exclude.map((pattern) => `--exclude=${pattern}`)
  const child = start([...TAR, ...PACK, '--anchored', ...excluded, '--directory', directory, '--', ...names])
  const { stdout } = child
  if (stdout === null) throw new DormouseError('internal', 'A program has no output.')
  child.stdin?.end()
  const ended = untilEnded(child, 'packing')
  return readableUntil(stdout, ended)
}

function readableUntil(stdout: Readable, ended: Promise<void>): Readable {
  ended.catch(() => {})
  async function* read(): AsyncGenerator<Buffer> {
    for await (const piece of stdout) yield piece as Buffer
    await ended
  }
  return Readable.from(read(), { objectMode: false })
}

export async function unpack(directory: string, { content }: ArrivingArchive): Promise<void> {
  const child = start([...TAR, ...UNPACK, '--directory', directory])
  const ended = untilEnded(child, 'unpacking')
  ended.catch(() => {})
  child.stdout?.resume()
  const { stdin } = child
  if (stdin === null) throw new DormouseError('internal', 'A program has no input.')
  let isRead = false
  async function* read(): AsyncGenerator<Uint8Array> {
    yield* content()
    isRead = true
  }
  try {
    await pipeline(read(), stdin)
  } catch (error) {
    if (!HAS_ENDED.has((error as NodeJS.ErrnoException).code)) child.kill('SIGKILL')
    // It may have read all, and ended before the pipe was closed here. Otherwise its own words say more.
    else await ended
    if (!isRead) throw error
  }
  await ended
}

function start([program, ...args]: readonly string[]): ChildProcess {
  // The kernel ends the program with this server. What it says is compared in English.
  const whole = ['--pdeathsig', 'KILL', '--', 'env', 'LC_ALL=C', program ?? '', ...args]
  return spawn('setpriv', whole, {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

async function untilEnded(child: ChildProcess, what: string): Promise<void> {
  let said = ''
  child.stderr?.on('data', (data: Buffer) => {
    said = (said + data.toString()).slice(0, SAID_MAX_CHARACTERS)
  })
  const [code] = (await once(child, 'close')) as [number | null]
  if (code === 0 || (code === FILES_DIFFER && ONLY_CHANGED.test(said))) return
  if (DISK_IS_FULL.test(said))
    throw new DormouseError('no_space', 'The disk that holds the sandboxes is full.', {
      details: { output: said.slice(0, ERROR_MAX_CHARACTERS) },
    })
  throw new DormouseError('setup_failed', `${what} a snapshot: tar ended with exit code ${code}`, {
    details: { output: said.slice(0, ERROR_MAX_CHARACTERS) },
  })
}
