import { createHmac } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { PublicDialer } from '@dormouse/egress'

export interface SendDelivery {
  readonly url: string
  readonly id: string
  readonly type: string
  readonly body: string
  /** Each of them signs. */
  readonly secrets: readonly string[]
  readonly nowMs: number
  /** Whether the receiver may have a private address. */
  readonly allowPrivate: boolean
  readonly signal: AbortSignal
}

/**
 * Sends one delivery and returns the status of the answer. Follows no redirect, reads no body, and connects only to the
 * address that was judged. Rejects when there is no answer.
 */
export async function sendDelivery(
  dialer: Pick<PublicDialer, 'dial' | 'dialNamed'>,
  { url: text, id, type, body, secrets, nowMs, allowPrivate, signal }: SendDelivery,
): Promise<number> {
  const url = new URL(text)
  const isTls = url.protocol === 'https:'
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const target = { host, port: Number(url.port) || (isTls ? 443 : 80) }
  const socket = await (allowPrivate ? dialer.dialNamed(target, signal) : dialer.dial(target, signal))
  try {
    return await post(isTls ? await secured(socket, host, signal) : socket, signal, {
      url,
      body,
      headers: {
        'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(body)),
        'user-agent': 'dormouse-webhook',
        'dormouse-event': type,
        'dormouse-delivery': id,
        'dormouse-signature': signatureOf(body, secrets, nowMs),
      },
    })
  } finally {
    socket.destroy()
  }
}

/** `t` is seconds since the epoch. `v1` is the HMAC-SHA256 of `t`, a dot and the body, once for each secret. */
function signatureOf(body: string, secrets: readonly string[], nowMs: number): string {
  const t = Math.floor(nowMs / 1000)
  const signed = secrets.map((secret) => createHmac('sha256', secret).update(`${t}.${body}`).digest('hex'))
  return [`t=${t}`, ...signed.map((value) => `v1=${value}`)].join(',')
}

function secured(socket: Socket, host: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const tls = connectTls({ socket, servername: host, host }, () => resolve(tls))
    tls.on('error', reject)
    signal.addEventListener('abort', () => tls.destroy(new Error('no answer in time')), { once: true })
  })
}

function post(
  socket: Socket,
  signal: AbortSignal,
  { url, body, headers }: { url: URL; body: string; headers: Record<string, string> },
): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      ...{ method: 'POST', path: url.pathname + url.search, signal },
      headers: { host: url.host, connection: 'close', ...headers },
      createConnection: () => socket,
    })
    request.on('error', reject)
    request.on('response', (response) => {
      response.on('error', () => {}).destroy()
      resolve(response.statusCode ?? 0)
    })
    request.end(body)
  })
}
