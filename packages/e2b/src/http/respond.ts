import type { IncomingMessage, ServerResponse } from 'node:http'
import { ApiError, describeError } from './api-error.ts'

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body)
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}

export function sendNothing(response: ServerResponse, status = 204): void {
  // Clients parse the body of any other status unless its length says that there is none.
  response.writeHead(status, status === 204 ? {} : { 'content-length': 0 })
  response.end()
}

export function sendText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}

/** Sends `{code, message}`, or ends a response that has already started. */
export function sendError(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const { status, message } = describeError(error)
  sendJson(response, status, { code: status, message })
}

/** Reads a whole body. Throws `ApiError` 413 above `maxBytes`. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of request as AsyncIterable<Buffer>) {
    bytes += piece.byteLength
    if (bytes > maxBytes) throw new ApiError(413, `The body is longer than ${maxBytes} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** Reads a JSON body; an empty body is `{}`. */
export async function readJson(request: IncomingMessage, maxBytes: number): Promise<unknown> {
  const body = await readBody(request, maxBytes)
  if (body.byteLength === 0) return {}
  try {
    return JSON.parse(body.toString())
  } catch {
    throw new ApiError(400, 'The body is not valid JSON')
  }
}

/** Aborts when the client disconnects before the response is complete. */
export function disconnected(response: ServerResponse): AbortSignal {
  const gone = new AbortController()
  response.once('close', () => {
    if (!response.writableFinished) gone.abort()
  })
  return gone.signal
}
