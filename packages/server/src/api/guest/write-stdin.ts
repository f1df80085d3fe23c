import { onAbort } from '@dormouse/async'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Sandbox } from '../../sandbox/service.ts'
import { STDIN_PIECE_BYTES, STDIN_STALL_MS } from '../limits.ts'

export interface StdinTarget {
  readonly sandbox: Sandbox
  readonly pid: number
  readonly signal: AbortSignal
}

/** One piece in one short call, which wakes the sandbox if need be. A process that does not read is given up: it would keep the sandbox from its standby. */
export async function writePiece(
  { sandbox, pid, signal }: StdinTarget,
  piece: Uint8Array,
  close = false,
): Promise<number> {
  // Not AbortSignal.any: what it ties to a long-lived signal stays, and a terminal makes one per key that is pressed.
  const either = new AbortController()
  let isStalled = false
  const timer = setTimeout(() => {
    isStalled = true
    either.abort()
  }, STDIN_STALL_MS)
  const listener = onAbort(signal, () => either.abort(signal.reason))
  try {
    const work = { cause: 'process', what: `input of process ${pid}`, signal: either.signal } as const
    return await sandbox.use(work, (guest) =>
      guest.processes.writeStdin(pid, piece, { close, signal: either.signal }),
    )
  } catch (cause) {
    if (!isStalled) throw cause
    throw new DormouseError('conflict', `process ${pid} does not read its input`, {
      hint: 'Send the rest when it does; what it took of the last piece is not known.',
      details: { reason: 'not_reading' },
      cause,
    })
  } finally {
    clearTimeout(timer)
    listener[Symbol.dispose]()
  }
}

/** Bytes taken. */
export async function writeStdin(
  target: StdinTarget,
  pieces: AsyncIterable<Uint8Array>,
  close: boolean,
): Promise<number> {
  let bytes = 0
  for await (const piece of pieces) {
    for (let at = 0; at < piece.byteLength; at += STDIN_PIECE_BYTES) {
      bytes += await writePiece(target, piece.subarray(at, at + STDIN_PIECE_BYTES))
    }
  }
  if (bytes > 0 && !close) return bytes
  try {
    // Also for nothing at all: whether there is such a process, and whether it can be written to.
    await writePiece(target, new Uint8Array(), close)
  } catch (error) {
    if (bytes === 0 || !isClosed(error)) throw error
  }
  return bytes
}

/** What it took may have ended it: then its input is as closed as it was to be. */
function isClosed(error: unknown): boolean {
  return hasErrorCode(error, 'conflict') && error.details['reason'] !== 'not_reading'
}
