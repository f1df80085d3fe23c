import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { FastifyRequest } from 'fastify'
import { discardRest } from './discard-rest.ts'
import type { App } from './route.ts'

/** Replaces the framework's parsers: this one checks UTF-8 and has a time limit. An empty body counts as none. */
export function useJsonBodies(app: App, timeoutMs: number): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', async (request: FastifyRequest, payload: IncomingMessage) => {
    const { bodyLimit: limitBytes } = request.routeOptions
    const body = await readBody(payload, { limitBytes, timeoutMs }).catch(async (error: unknown) => {
      if (hasErrorCode(error, 'too_large')) await discardRest(payload)
      throw error
    })
    return body.length === 0 ? undefined : parseJson(body)
  })
}

async function readBody(
  payload: IncomingMessage,
  { limitBytes, timeoutMs }: { limitBytes: number; timeoutMs: number },
): Promise<Buffer> {
  const declared = Number(payload.headers['content-length'] ?? 0)
  if (declared > limitBytes) throw tooLarge(limitBytes)
  return await new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const timer = setTimeout(
      () => settle(() => reject(new DormouseError('request_timeout', 'the body did not arrive in time'))),
      timeoutMs,
    )
    const settle = (end: () => void) => {
      clearTimeout(timer)
      payload.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose)
      end()
    }
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > limitBytes) settle(() => reject(tooLarge(limitBytes)))
      else chunks.push(chunk)
    }
    const onEnd = () => settle(() => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, bytes)))
    const onClose = () => settle(() => reject(new DormouseError('cancelled', 'the caller went away')))
    const onError = onClose
    payload.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose)
  })
}

function parseJson(body: Buffer): unknown {
  if (!isUtf8(body)) throw new DormouseError('invalid_argument', 'body: is not valid UTF-8')
  try {
    return JSON.parse(body.toString('utf8'))
  } catch (cause) {
    // V8's message quotes the text around the error, which may be code or a secret, so it is not logged.
    throw new DormouseError('invalid_argument', 'body: is not valid JSON', {
      hint: 'Send one JSON object.',
      cause,
    })
  }
}

function tooLarge(limitBytes: number): DormouseError {
  return new DormouseError('too_large', `body: is larger than ${limitBytes} bytes`, {
    details: { limitBytes },
  })
}
