import { onAbort } from '@dormouse/async'
import type { WebSocket } from 'ws'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { STDIN_PIECE_BYTES, TERMINAL_WAITING_BYTES } from '../limits.ts'
import { writePiece } from './write-stdin.ts'

export interface TerminalInputParts {
  readonly socket: WebSocket
  readonly sandbox: SandboxHandle
  readonly signal: AbortSignal
  readonly onError: (error: unknown) => void
}

/** After a client disconnects, its remaining input is delivered for this long. */
const LAST_WORDS_MS = 2_000

/** Delivers what a client types, in order, as fast as the process reads it. Wakes the sandbox. */
export class TerminalInput {
  readonly #parts: TerminalInputParts
  readonly #over = new AbortController()
  /** Resolves when the process has started. */
  readonly processId: Promise<string>
  #begin: (processId: string) => void = () => {}
  #waiting: Buffer[] = []
  #waitingBytes = 0
  #isWriting = false

  constructor(parts: TerminalInputParts) {
    this.#parts = parts
    this.processId = new Promise((resolve) => {
      this.#begin = resolve
    })
    const end = () => setTimeout(() => this.#over.abort(), LAST_WORDS_MS).unref()
    onAbort(parts.signal, end)
  }

  begin(processId: string): void {
    this.#begin(processId)
  }

  type(bytes: Buffer): void {
    this.#waiting.push(bytes)
    this.#waitingBytes += bytes.byteLength
    if (this.#waitingBytes > TERMINAL_WAITING_BYTES) this.#parts.socket.pause()
    if (!this.#isWriting) void this.#write()
  }

  async #write(): Promise<void> {
    this.#isWriting = true
    const processId = await this.processId
    const target = { sandbox: this.#parts.sandbox, processId, signal: this.#over.signal }
    while (this.#waitingBytes > 0 && !this.#over.signal.aborted) {
      try {
        await writePiece(target, this.#take())
      } catch (error) {
        if (!this.#parts.signal.aborted) this.#parts.onError(error)
      }
      if (this.#parts.socket.isPaused && this.#waitingBytes <= TERMINAL_WAITING_BYTES)
        this.#parts.socket.resume()
    }
    this.#isWriting = false
  }

  #take(): Buffer {
    const all = Buffer.concat(this.#waiting)
    const piece = all.subarray(0, STDIN_PIECE_BYTES)
    const rest = all.subarray(STDIN_PIECE_BYTES)
    this.#waiting = rest.byteLength === 0 ? [] : [rest]
    this.#waitingBytes = rest.byteLength
    return piece
  }
}
