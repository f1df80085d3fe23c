import type { Duplex } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { ServerChannel, TcpipInfo } from 'ssh2'
import { openRelay, type Relay } from '../api/preview/relay.ts'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import { ChannelWriter } from './channel-writer.ts'
import type { ChannelParts } from './connection-parts.ts'

export interface ForwardRequest {
  readonly accept: () => ServerChannel
  readonly refuse: (reason: string) => void
  readonly info: TcpipInfo
}

/** Names and addresses of the sandbox, as seen from inside it. */
const SANDBOX_NAMES = new Set([
  'localhost',
  '127.0.0.1',
  '::1',
  '0.0.0.0',
  '::',
  '198.18.0.2',
  'fd64:6f72:6d6f::2',
])

/** Serves `ssh -L`, `-D` and `-W`: connects the client to a port of the sandbox. */
export async function forward(connection: ChannelParts, request: ForwardRequest): Promise<void> {
  const { accept, refuse, info } = request
  const gone = new AbortController()
  const leave = () => gone.abort()
  const listener = onAbort(connection.closed, leave)
  onAbort(gone.signal, () => listener[Symbol.dispose]())
  try {
    const sandbox = connection.sandbox()
    requireSandboxAddress(sandbox, info.destIP)
    const idleMs = connection.parts.idleConnectionMs
    const relay = await openRelay(sandbox, info.destPort, { signal: gone.signal, idleMs })
    relay.hold.mayIdle()
    relay.connection.once('close', leave)
    const channel = accept()
    connection.watch(channel)
    relayChannel(channel, relay, { socket: connection.socket, gone: gone.signal, leave })
  } catch (error) {
    refuse(connection.fail(error).message)
    leave()
  }
}

function requireSandboxAddress(sandbox: SandboxHandle, host: string): void {
  const { id, name } = sandbox.view()
  const wanted = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  if (SANDBOX_NAMES.has(wanted) || wanted === id || wanted === name?.toLowerCase()) return
  throw new DormouseError(
    'invalid_argument',
    `only ports of the sandbox itself can be forwarded, not ${host}`,
    {
      hint: 'Use localhost as the destination host.',
    },
  )
}

function relayChannel(
  channel: ServerChannel,
  { connection, hold }: Relay,
  { socket, gone, leave }: { socket: ChannelParts['socket']; gone: AbortSignal; leave: () => void },
): void {
  const writer = new ChannelWriter(channel, { socket, gone })
  channel.on('error', () => {})
  channel.on('data', (piece: Buffer) => {
    hold.touch()
    if (connection.writableEnded || connection.write(piece)) return
    channel.pause()
    connection.once('drain', () => channel.resume())
  })
  channel.once('end', () => connection.end())
  channel.once('close', leave)
  void sendToClient(connection, { channel, writer, hold })
}

/** Not `for await`, which destroys the connection at the end of this half. */
async function sendToClient(
  connection: Duplex,
  { channel, writer, hold }: { channel: ServerChannel; writer: ChannelWriter; hold: Relay['hold'] },
): Promise<void> {
  let writing = Promise.resolve(true)
  connection.on('data', (piece: Buffer) => {
    hold.touch()
    connection.pause()
    writing = writer.write('stdout', piece)
    void writing.then(() => connection.resume())
  })
  connection.once('end', () => void writing.then(() => channel.eof()))
  connection.once(
    'close',
    () =>
      void writing.then(() => {
        channel.resume()
        channel.end()
      }),
  )
}
