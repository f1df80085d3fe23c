import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { Sandbox } from 'dormouse'
import { WebSocket } from 'ws'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { pipeConnection } from '../pipe-connection.ts'
import { shortName } from './ls.ts'

interface Forwarded {
  readonly localPort: number
  readonly port: number
}

/** Forwards connections until Ctrl-C. Each connection wakes the sandbox if it sleeps. */
export async function forward(
  call: Call,
  ref: string,
  ports: readonly string[],
  { host }: { host: string },
): Promise<void> {
  const wanted = ports.map(parsePorts)
  const sandbox = await call.sandbox(ref)
  const servers: Server[] = []
  try {
    for (const { localPort, port } of wanted) {
      const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) =>
        relay(call, sandbox, port, socket),
      )
      servers.push(server)
      server.listen(localPort, host)
      await once(server, 'listening', { signal: call.signal })
      const { port: listening } = server.address() as AddressInfo
      if (call.isJson) call.printJsonLine({ sandboxId: sandbox.id, host, localPort: listening, port })
      else
        call.note(
          `Forwarding ${host}:${listening} to port ${port} of ${shortName(sandbox)}. Stop with Ctrl-C.`,
        )
    }
    await once(call.signal, 'abort')
    call.signal.throwIfAborted()
  } finally {
    for (const server of servers) server.close()
  }
}

/** Parses PORT or LOCAL:PORT. Local port 0 means any free port. */
function parsePorts(text: string): Forwarded {
  const { local, port } = /^(?:(?<local>\d{1,5}):)?(?<port>\d{1,5})$/.exec(text)?.groups ?? {}
  const forwarded = { localPort: Number(local ?? port), port: Number(port) }
  if (port === undefined || forwarded.port < 1 || forwarded.port > 65_535 || forwarded.localPort > 65_535)
    throw new UsageError(`"${text}" is not a port`, 'Use PORT, or LOCAL:PORT such as 8080:80.')
  return forwarded
}

async function relay(call: Call, sandbox: Sandbox, port: number, socket: Socket): Promise<void> {
  socket.on('error', () => {})
  try {
    const { url, apiKey } = await call.client.http.address()
    const address = `${url.replace(/^http/, 'ws')}/v1/sandboxes/${sandbox.id}/ports/${port}/tcp`
    const webSocket = new WebSocket(address, { headers: { authorization: `Bearer ${apiKey}` } })
    pipeConnection(socket, webSocket, (message) => call.note(`dormouse: port ${port}: ${message}`))
  } catch (error) {
    call.note(`dormouse: ${error instanceof Error ? error.message : String(error)}`)
    socket.destroy()
  }
}
