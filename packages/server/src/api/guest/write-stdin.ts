import { onAbort } from '@dormouse/async'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { STDIN_PIECE_BYTES, STDIN_STALL_MS } from '../limits.ts'

export interface StdinTarget {
  readonly sandbox: SandboxHandle
  readonly processId: string
  readonly signal: AbortSignal
}

/**
 * Writes one piece in one short call, which wakes the sandbox if necessary. Gives up on a process that does not read:
 * waiting would keep the sandbox from going to sleep.
 */
export async function writePiece(
  { sandbox, processId, signal }: StdinTarget,
  piece: Uint8Array,
  close = false,
): Promise<number> {
  // Not AbortSignal.any: what it attaches to a long-lived signal stays, and a terminal would attach one per key press.
  const either = new AbortController()
  let isStalled = false
  const timer = setTimeout(() => {
    isStalled = true
    either.abort()
  }, STDIN_STALL_MS)
  const listener = onAbort(signal, () => either.abort(signal.reason))
  try {
    const work = { cause: 'process', what: `input of process ${processId}`, signal: either.signal } as const
    return await sandbox.use(work, (guest) =>
      guest.processes.writeStdin(processId, piece, { close, signal: either.signal }),
    )
  } catch (cause) {
    if (!isStalled) throw cause
    throw new DormouseError('conflict', `process ${processId} does not read its input`, {
      hint: 'Send the rest when it reads again. How much of the last piece it took is unknown.',
      details: { reason: 'not_reading' },
      cause,
    })
  } finally {
    clearTimeout(timer)
    listener[Symbol.dispose]()
  }
}

/** Returns the number of bytes that the process took. */
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
    // Writes even an empty piece, to learn whether the process exists and takes input.
    await writePiece(target, new Uint8Array(), close)
  } catch (error) {
    if (bytes === 0 || !isClosed(error)) throw error
  }
  return bytes
}

/** The input may have ended the process: then its input is closed, as intended. */
function isClosed(error: unknown): boolean {
  return hasErrorCode(error, 'conflict') && error.details['reason'] !== 'not_reading'
}
