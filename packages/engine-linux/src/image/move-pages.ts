import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { finished } from 'node:stream/promises'
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
    readonly moves: readonly { readonly from: bigint; readonly to: bigint; readonly lengthBytes: bigint }[]
  }
}

/** Has the native program move all pages of a dump; no page passes through this process. */
export async function movePages(tasks: readonly PageMoves[], signal?: AbortSignal): Promise<void> {
  if (tasks.length === 0) return
  signal?.throwIfAborted()
  const child = spawn(pagesProgram, [], { stdio: ['pipe', 'ignore', 'pipe'], ...(signal && { signal }) })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(0, ERROR_MAX_CHARACTERS)
  })
  const ended = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
  child.stdin.end(tasks.flatMap(toRecords).join(''))
  // A program that gave up reads no further; its own message says more than the broken pipe.
  await finished(child.stdin).catch(() => {})
  const [status, killedBy] = await ended
  if (status === 0) return
  throw moveError(said.trim(), killedBy ?? `exit code ${status}`)
}

function toRecords({ sourcePath, keptPath, keep, memory }: PageMoves): string[] {
  const records = [`source=${sourcePath}`, `kept=${keptPath}`]
  for (const { offset, lengthBytes } of keep) records.push(`keep=${offset} ${lengthBytes}`)
  if (memory !== undefined) {
    records.push(`memory=${memory.sizeBytes} ${memory.path}`)
    for (const { from, to, lengthBytes } of memory.moves) records.push(`move=${from} ${to} ${lengthBytes}`)
  }
  return records.map((record) => `${record}\0`)
}

function moveError(said: string, ending: string): DormouseError {
  const details = { output: said, ending }
  if (said.endsWith('No space left on device') || said.endsWith('Disk quota exceeded')) {
    return new DormouseError('no_space', 'There is no space for the memory of the snapshot.', { details })
  }
  return new DormouseError('internal', `Moving the memory of a snapshot failed: ${said || ending}`, {
    details,
  })
}
