import { writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { MESSAGE_MAX_BYTES, WRITE_RETRY_MS } from './limits.mjs'

const LENGTH_BYTES = 4
/** What `Atomics.wait` sleeps on: nothing ever changes it. */
const NEVER = new Int32Array(new SharedArrayBuffer(4))

/** The kernel's end of the control socket (PROTOCOL.md, Agent and kernel). */
export class Control {
  #fd
  #incoming = Buffer.alloc(0)

  /** @param {number} fd */
  constructor(fd) {
    this.#fd = fd
  }

  /**
   * @param {(message: Record<string, any>) => void} onMessage
   * @param {() => void} onEnd
   */
  listen(onMessage, onEnd) {
    const socket = new Socket({ fd: this.#fd, readable: true, writable: true, allowHalfOpen: true })
    socket.on('data', (data) => {
      this.#incoming = Buffer.concat([this.#incoming, data])
      for (const message of this.#takeMessages()) onMessage(message)
    })
    socket.on('end', onEnd)
    socket.on('error', onEnd)
  }

  /**
   * Writes at once, also while user code keeps the event loop busy.
   * @param {Record<string, unknown>} message
   */
  send(message) {
    const payload = Buffer.from(JSON.stringify(message).toWellFormed?.() ?? JSON.stringify(message))
    if (payload.length > MESSAGE_MAX_BYTES)
      throw new Error(`a message of ${payload.length} bytes is too large`)
    const frame = Buffer.alloc(LENGTH_BYTES + payload.length)
    frame.writeUInt32BE(payload.length)
    payload.copy(frame, LENGTH_BYTES)
    for (let sent = 0; sent < frame.length; ) sent += this.#write(frame, sent)
  }

  /**
   * @param {Buffer} frame
   * @param {number} from
   */
  #write(frame, from) {
    try {
      return writeSync(this.#fd, frame, from)
    } catch (error) {
      if (/** @type {any} */ (error).code !== 'EAGAIN') throw error
      Atomics.wait(NEVER, 0, 0, WRITE_RETRY_MS)
      return 0
    }
  }

  *#takeMessages() {
    while (this.#incoming.length >= LENGTH_BYTES) {
      const end = LENGTH_BYTES + this.#incoming.readUInt32BE()
      if (this.#incoming.length < end) return
      const payload = this.#incoming.subarray(LENGTH_BYTES, end)
      this.#incoming = this.#incoming.subarray(end)
      yield JSON.parse(payload.toString())
    }
  }
}
