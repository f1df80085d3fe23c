import type { Socket } from 'node:net'
import { reset } from '../gate/reset.ts'
import { DNS_TCP_IDLE_TIMEOUT_MS, QUESTION_MAX_BYTES, QUESTIONS_MAX_PER_CONNECTION } from '../limits.ts'

/** Answers questions on a connection (RFC 7766) until the client closes it or misbehaves. */
export function serveTcp(socket: Socket, answer: (packet: Buffer) => Promise<Buffer | undefined>): void {
  let received = Buffer.alloc(0)
  let open = 0
  let hasEnded = false

  socket.setTimeout(DNS_TCP_IDLE_TIMEOUT_MS, () => socket.destroy())
  socket.on('error', () => socket.destroy())
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk])
    takeQuestions()
  })
  socket.on('end', () => {
    hasEnded = true
    if (open === 0) socket.end()
  })
  socket.on('drain', continueReading)
  socket.resume()

  function takeQuestions(): void {
    while (received.length >= 2 && !socket.writableNeedDrain && open < QUESTIONS_MAX_PER_CONNECTION) {
      const length = received.readUInt16BE(0)
      if (length > QUESTION_MAX_BYTES) {
        reset(socket)
        return
      }
      if (received.length < 2 + length) break
      const packet = received.subarray(2, 2 + length)
      received = received.subarray(2 + length)
      open++
      void answer(packet).then(sendReply)
    }
    if (open >= QUESTIONS_MAX_PER_CONNECTION || socket.writableNeedDrain) socket.pause()
  }

  function sendReply(reply: Buffer | undefined): void {
    open--
    if (socket.destroyed) return
    if (reply !== undefined) {
      const length = Buffer.alloc(2)
      length.writeUInt16BE(reply.length)
      socket.write(Buffer.concat([length, reply]))
    }
    // A client that does not read its answers gets no more, and times out.
    if (!socket.writableNeedDrain) continueReading()
  }

  function continueReading(): void {
    takeQuestions()
    if (open < QUESTIONS_MAX_PER_CONNECTION) socket.resume()
    if (hasEnded && open === 0) socket.end()
  }
}
