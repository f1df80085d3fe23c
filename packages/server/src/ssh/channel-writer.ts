import type { Socket } from 'node:net'
import { onAbort } from '@dormouse/async'
import type { ServerChannel } from 'ssh2'
import { OUTGOING_MAX_BYTES } from './limits.ts'

/** Writes to one channel, one piece at a time, no faster than the client reads. */
export class ChannelWriter {
  readonly #channel: ServerChannel
  readonly #socket: Socket
  readonly #gone: AbortSignal

  constructor(channel: ServerChannel, { socket, gone }: { socket: Socket; gone: AbortSignal }) {
    this.#channel = channel
    this.#socket = socket
    this.#gone = gone
  }

  /** Pre: the previous write has settled. Post: there is room for more, or (false) the channel is closed. */
  async write(stream: 'stdout' | 'stderr', data: Uint8Array): Promise<boolean> {
    const channel = this.#channel
    if (!this.#isOpen) return false
    const target = stream === 'stdout' ? channel : channel.stderr
    await this.#settled((done) => target.write(data, () => done()))
    // ssh2 keeps a chunk that waited for the client's window, and sends it again when the other stream has to wait.
    channel._chunk = undefined
    channel._chunkcb = undefined
    channel._chunkErr = undefined
    channel._chunkcbErr = undefined
    // A client may announce any window. Bytes that it does not read wait in this socket.
    if (this.#socket.writableLength > OUTGOING_MAX_BYTES)
      await this.#settled((done) => this.#socket.once('drain', done))
    return this.#isOpen
  }

  get #isOpen(): boolean {
    return !this.#gone.aborted && this.#channel.outgoing.state === 'open'
  }

  /** Waits for `done`, or for the end of the client: ssh2 may never call back once the channel is closed. */
  #settled(begin: (done: () => void) => void): Promise<void> {
    return new Promise((resolve) => {
      const listener = onAbort(this.#gone, resolve)
      begin(() => {
        listener[Symbol.dispose]()
        resolve()
      })
    })
  }
}
