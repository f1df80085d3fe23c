import type { Socket } from 'node:net'
import { isIPv6 } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { DIAL_TIMEOUT_MS, PROXY_ANSWER_MAX_BYTES } from '../limits.ts'
import { dialDirect } from './direct.ts'

export interface ProxyTarget {
  /** A name or an address: it is what the proxy is asked for. */
  readonly host: string
  readonly port: number
}

/** A tunnel through an HTTP proxy. What the proxy wants to know about the host (its password) stays on this side of it. */
export async function dialThroughProxy(
  proxy: URL,
  { host, port }: ProxyTarget,
  signal: AbortSignal,
): Promise<Socket> {
  const isTls = proxy.protocol === 'https:'
  const proxyHost = proxy.hostname.replace(/^\[|\]$/g, '')
  const plain = await dialDirect({ host: proxyHost, port: Number(proxy.port) || (isTls ? 443 : 80) }, signal)
  const socket = isTls ? await secure(plain, proxyHost, signal) : plain
  const authority = `${isIPv6(host) ? `[${host}]` : host}:${port}`
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials(proxy)}\r\n`)
  const { status, rest } = await readAnswer(socket, signal)
  if (status < 200 || status > 299) {
    socket.destroy()
    throw new Error(`the proxy answers ${status}`)
  }
  if (rest.length > 0) socket.unshift(rest)
  return socket
}

function credentials({ username, password }: URL): string {
  if (username === '') return ''
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return `Proxy-Authorization: Basic ${Buffer.from(pair).toString('base64')}\r\n`
}

function secure(plain: Socket, servername: string, signal: AbortSignal): Promise<Socket> {
  const socket = connectTls({ socket: plain, servername, ALPNProtocols: ['http/1.1'] })
  return untilEvent(socket, 'secureConnect', signal).then(() => socket)
}

async function untilEvent(socket: Socket, event: string, signal: AbortSignal): Promise<void> {
  await guard(socket, signal, (resolve) => socket.once(event, resolve))
}

function readAnswer(socket: Socket, signal: AbortSignal): Promise<{ status: number; rest: Buffer }> {
  let received = Buffer.alloc(0)
  return guard(socket, signal, (resolve, reject) => {
    const take = (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      const end = received.indexOf('\r\n\r\n')
      if (end < 0 && received.length <= PROXY_ANSWER_MAX_BYTES) return
      socket.removeListener('data', take)
      socket.pause()
      const status = /^HTTP\/1\.\d (\d{3})/.exec(received.toString('latin1', 0, 64))?.[1]
      if (end < 0 || status === undefined) reject(new Error('the proxy does not speak HTTP'))
      else resolve({ status: Number(status), rest: received.subarray(end + 4) })
    }
    socket.on('data', take)
  })
}

/** Ends the socket, and the wait, when it takes too long, breaks or is no longer wanted. */
function guard<T>(
  socket: Socket,
  signal: AbortSignal,
  work: (resolve: (value: T) => void, reject: (error: Error) => void) => void,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const clean = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
      socket.on('error', () => {})
      socket.removeListener('error', fail)
      socket.removeListener('end', closed)
      socket.removeListener('close', closed)
    }
    const fail = (error: Error) => {
      clean()
      socket.destroy()
      reject(error)
    }
    const succeed = (value: T) => {
      clean()
      resolve(value)
    }
    const timer = setTimeout(() => fail(new Error('the proxy does not answer in time')), DIAL_TIMEOUT_MS)
    const abort = () => fail(new Error('no longer wanted'))
    const closed = () => fail(new Error('the proxy has hung up'))
    signal.addEventListener('abort', abort)
    socket.on('error', fail)
    socket.on('end', closed)
    socket.on('close', closed)
    work(succeed, fail)
    if (signal.aborted) abort()
  })
}
