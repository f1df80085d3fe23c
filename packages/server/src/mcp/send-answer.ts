import type { FastifyReply } from 'fastify'
import { drained, SSE } from '../api/event-stream.ts'

/** Sends a response of the protocol. A stream starts at once, even if its first event comes later. */
export async function sendAnswer(reply: FastifyReply, answer: Response): Promise<void> {
  const headers = Object.fromEntries(answer.headers)
  if (answer.body === null || headers['content-type'] !== SSE) {
    await reply
      .code(answer.status)
      .headers(headers)
      .send(await answer.text())
    return
  }
  const { raw, server } = reply
  const own = reply.getHeaders() as Record<string, string>
  reply.hijack()
  raw.writeHead(answer.status, { ...own, ...headers })
  raw.flushHeaders()
  const reader = answer.body.getReader()
  // A client that has disconnected needs no error.
  raw.once('close', () => reader.cancel().catch(() => {}))
  for (;;) {
    const { done, value } = await reader.read()
    if (done || !raw.writable) break
    if (!raw.write(value)) await drained(raw, server.clientTimeouts.readerMs)
  }
  if (!raw.writableEnded) raw.end()
}
