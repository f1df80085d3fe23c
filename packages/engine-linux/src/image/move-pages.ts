import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { DormouseError } from '@dormouse/contracts'

const pagesProgram = fileURLToPath(new URL('../../native/build/dormouse-pages', import.meta.url))

/** Standard error kept for the message; the program says one line. */
const ERROR_MAX_CHARACTERS = 2_000

/** What to do with the pages image of one task. */
export interface PageMoves {
  readonly sourcePath: string
  /** Gets the pages that stay, one behind the other. */
  readonly keptPath: string
  readonly keep: readonly { readonly offset: bigint; readonly lengthBytes: bigint }[]
  /** A sparse file to make; zero pages become holes. */
  readonly memory?: {
    readonly path: string
    readonly sizeBytes: bigint
    readonly moves: readonly PageMove[]
    /** What of other memory files it begins with; `moves` go over it. */
    readonly bases?: readonly (PageMove & { readonly path: string })[]
  }
}

export interface PageMove {
  readonly from: bigint
  readonly to: bigint
  readonly lengthBytes: bigint
}

/** Has the native program move all pages of a dump; no page passes through this process. */
export async function movePages(
  tasks: readonly PageMoves[],
  signal?: AbortSignal,
  { isIdle = false } = {},
): Promise<void> {
  if (tasks.length === 0) return
  signal?.throwIfAborted()
  const child = spawn(pagesProgram, [], { stdio: ['pipe', 'ignore', 'pipe'] })
  const stop = () => child.kill()
  signal?.addEventListener('abort', stop, { once: true })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(0, ERROR_MAX_CHARACTERS)
  })
  // A program that gave up reads no further; its own message says more than the broken pipe.
  child.stdin.on('error', () => {})
  child.stdin.end([...(isIdle ? ['gently=\0'] : []), ...tasks.flatMap(toRecords)].join(''))
  try {
    const ending = await waitForEnd(child)
    signal?.throwIfAborted()
    if (ending !== 0) throw moveError(said.trim(), ending)
  } finally {
    signal?.removeEventListener('abort', stop)
  }
}

/** Settles only when the program is gone: until then it could still be making files. */
function waitForEnd(child: ChildProcess): Promise<number | string> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (status, killedBy) => resolve(status ?? `killed by ${killedBy}`))
  })
}

function toRecords({ sourcePath, keptPath, keep, memory }: PageMoves): string[] {
  const range = ({ from, to, lengthBytes }: PageMove) => `${from} ${to} ${lengthBytes}`
  const records = [`source=${sourcePath}`, `kept=${keptPath}`]
  for (const { offset, lengthBytes } of keep) records.push(`keep=${offset} ${lengthBytes}`)
  if (memory !== undefined) {
    records.push(`memory=${memory.sizeBytes} ${memory.path}`)
    for (const base of memory.bases ?? []) records.push(`source=${base.path}`, `base=${range(base)}`)
    if (memory.bases !== undefined) records.push(`source=${sourcePath}`)
    const how = memory.bases === undefined ? 'move' : 'over'
    for (const move of memory.moves) records.push(`${how}=${range(move)}`)
  }
  return records.map((record) => `${record}\0`)
}

function moveError(said: string, ending: number | string): DormouseError {
  const details = { output: said, ending }
  if (said.endsWith('No space left on device') || said.endsWith('Disk quota exceeded')) {
    return new DormouseError('no_space', 'There is no space for the memory of the snapshot.', { details })
  }
  return new DormouseError(
    'internal',
    `Moving the memory of a snapshot failed: ${said || `dormouse-pages ended with ${ending}`}`,
    {
      details,
    },
  )
}
