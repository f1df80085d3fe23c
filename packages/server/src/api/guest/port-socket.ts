import { onAbort } from '@dormouse/async'
import { DormouseError, parseInput } from '@dormouse/contracts'
import { tcpControlSchema } from '@dormouse/contracts/http'
import type { FastifyBaseLogger } from 'fastify'
import type { RawData, WebSocket } from 'ws'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { type ErrorAnswers, isForTheOperator, toDormouseError } from '../error-answer.ts'
import { TCP_WAITING_BYTES, TERMINAL_PING_MS } from '../limits.ts'
import { openRelay, type Relay } from '../preview/relay.ts'

/** Close codes of the WebSocket standard. */
const NORMAL = 1000
const GOING_AWAY = 1001
const POLICY = 1008

export interface PortSocketParts {
  readonly socket: WebSocket
  readonly sandbox: SandboxHandle
  readonly port: number
  readonly idleMs: number
  readonly requestId: string
  readonly answers: ErrorAnswers
  readonly log: FastifyBaseLogger
  /** Aborted when the key that opened it is revoked. */
  readonly revoked: AbortSignal
}

/**
 * Relays a TCP connection over a WebSocket. Binary messages are its bytes. Text messages are JSON: `{type: "start"}`
 * once connected, `{type: "end"}` in either direction when that half has ended, `{type: "error", error}` before the
 * socket is closed because of an error.
 */
export async function relayPort(parts: PortSocketParts): Promise<void> {
  const { socket, revoked } = parts
  const gone = new AbortController()
  const leave = () => gone.abort()
  // Bytes that the client sends before the connection is open wait in its socket.
  socket.pause()
  let isAlive = true
  const pings = setInterval(() => {
    if (!isAlive) return socket.terminate()
    isAlive = false
    socket.ping()
  }, TERMINAL_PING_MS)
  socket.on('pong', () => {
    isAlive = true
  })
  const revocation = onAbort(revoked, () => socket.close(POLICY, 'unauthorized'))
  socket.once('close', () => {
    clearInterval(pings)
    revocation[Symbol.dispose]()
    leave()
  })
  try {
    const { sandbox, port, idleMs } = parts
    const relay = await openRelay(sandbox, port, { signal: gone.signal, idleMs })
    relay.hold.mayIdle()
    say(socket, { type: 'start' })
    receiveFromClient(parts, relay)
    socket.resume()
    await sendToClient(socket, relay)
  } catch (error) {
    if (!gone.signal.aborted) fail(parts, error)
  }
}

function receiveFromClient(parts: PortSocketParts, { connection, hold }: Relay): void {
  const { socket } = parts
  socket.on('message', (data: RawData, isBinary: boolean) => {
    hold.touch()
    if (!isBinary) {
      try {
        parseInput(tcpControlSchema, JSON.parse(String(data)), 'message')
        connection.end()
      } catch {
        fail(parts, new DormouseError('invalid_argument', 'message: bytes are sent as binary messages'))
        connection.destroy()
      }
      return
    }
    if (connection.writableEnded) {
      fail(parts, new DormouseError('invalid_argument', 'message: bytes arrived after the end'))
      connection.destroy()
    } else if (!connection.write(data)) {
      socket.pause()
      connection.once('drain', () => socket.resume())
    }
  })
}

async function sendToClient(socket: WebSocket, { connection, hold }: Relay): Promise<void> {
  // Not `for await`, which destroys the stream at the end of this half.
  const ended = new Promise<void>((resolve, reject) => {
    connection.once('error', reject)
    connection.once('close', resolve)
  })
  connection.on('data', (piece: Buffer) => {
    hold.touch()
    if (socket.readyState !== socket.OPEN) return
    socket.send(piece, () => {
      if (connection.isPaused() && socket.bufferedAmount < TCP_WAITING_BYTES) connection.resume()
    })
    if (socket.bufferedAmount >= TCP_WAITING_BYTES) connection.pause()
  })
  connection.once('end', () => say(socket, { type: 'end' }))
  await ended
  socket.resume()
  socket.close(NORMAL, 'both halves have ended')
}

function fail({ socket, answers, requestId, log }: PortSocketParts, thrown: unknown): void {
  const error = toDormouseError(thrown)
  if (isForTheOperator(error) && error.code !== 'agent_unreachable')
    log.error({ err: thrown }, 'a connection to a port failed')
  // A paused socket does not receive the close frame.
  socket.resume()
  say(socket, { type: 'error', ...answers.body(error, requestId) })
  // The sandbox went to sleep: the client may connect again.
  socket.close(error.code === 'agent_unreachable' ? GOING_AWAY : POLICY, error.code)
}

function say(socket: WebSocket, message: object): void {
  if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(message))
}
