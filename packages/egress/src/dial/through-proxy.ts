import type { Socket } from 'node:net'
import { isIPv6 } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { PROXY_ANSWER_MAX_BYTES } from '../limits.ts'
import { dialDirect } from './direct.ts'
import { untilConnected } from './until-connected.ts'

export interface ProxyTarget {
  /** The name or address that the proxy is to connect to. */
  readonly host: string
  readonly port: number
}

/** Opens a tunnel through an HTTP proxy. The sandbox does not see the credentials that the proxy gets. */
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
    throw new Error(`the proxy returned status ${status}`)
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
  return untilConnected(socket, signal, (resolve) => socket.once('secureConnect', () => resolve(socket)))
}

function readAnswer(socket: Socket, signal: AbortSignal): Promise<{ status: number; rest: Buffer }> {
  let received = Buffer.alloc(0)
  return untilConnected(socket, signal, (resolve, reject) => {
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
