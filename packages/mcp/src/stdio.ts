import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import type { Dormouse } from 'dormouse'
import type { ConversationOptions } from './conversation.ts'
import { newConversationName } from './conversation-name.ts'
import { createMcpServer } from './create-mcp-server.ts'
import { STDIO_MESSAGE_MAX_BYTES } from './limits.ts'

export interface RunStdio {
  readonly client: Dormouse
  /** The sandbox for calls that name none. The same name continues with the same state. Default: a new one. */
  readonly sandbox?: string | undefined
  /** Options of that sandbox, for the case that it does not exist. */
  readonly create?: ConversationOptions['create']
  readonly stdin: Readable
  /** Nothing else may be written to it. */
  readonly stdout: Writable
  readonly stderr: Writable
  readonly signal: AbortSignal
}

/**
 * Serves one client over stdin and stdout until the client disconnects or `signal` aborts. Calls end then; the runs that
 * they wait for continue.
 */
export async function runStdio({
  client,
  sandbox,
  create,
  stdin,
  stdout,
  stderr,
  signal,
}: RunStdio): Promise<void> {
  const log = (error: unknown) =>
    stderr.write(`dormouse mcp: ${error instanceof Error ? error.message : error}\n`)
  const { server, connect, callsEnded } = createMcpServer({
    client,
    create,
    sandbox: sandbox ?? newConversationName(),
    isNamed: sandbox !== undefined,
    onInternalError: log,
    onClientError: log,
  })
  const end = new AbortController()
  const disconnect = () => end.abort()
  // An error of stdin or stdout means that the client was killed. That is a normal end.
  stdin.once('end', disconnect).once('close', disconnect).once('error', disconnect)
  stdout.once('error', disconnect)
  using _listener = onAbort(signal, disconnect)
  await connect(new StdioServerTransport(stdin, stdout, { maxBufferSize: STDIO_MESSAGE_MAX_BYTES }))
  server.onclose = disconnect
  if (!end.signal.aborted) await once(end.signal, 'abort')
  await server.close()
  await callsEnded()
}
