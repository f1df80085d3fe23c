import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import type { Dormouse } from 'dormouse'
import { newConversationName } from './conversation-name.ts'
import { createMcpServer } from './create-mcp-server.ts'
import { STDIO_MESSAGE_MAX_BYTES } from './limits.ts'

export interface RunStdio {
  readonly client: Dormouse
  /** The sandbox to use when a call names none: the same name goes on with the same state. A new one if not given. */
  readonly sandbox?: string | undefined
  readonly stdin: Readable
  /** Nothing else may be written to it. */
  readonly stdout: Writable
  readonly stderr: Writable
  readonly signal: AbortSignal
}

/**
 * Serves one client over stdin and stdout, until it hangs up or `signal` ends it. What is still running then is interrupted: nobody
 * is there who could read its answer.
 */
export async function runStdio({ client, sandbox, stdin, stdout, stderr, signal }: RunStdio): Promise<void> {
  const note = (error: unknown) =>
    stderr.write(`dormouse mcp: ${error instanceof Error ? error.message : error}\n`)
  const { server, callsEnded } = createMcpServer({
    client,
    sandbox: sandbox ?? newConversationName(),
    isNamed: sandbox !== undefined,
    onProblem: note,
    onMistake: note,
  })
  const over = new AbortController()
  const hangUp = () => over.abort()
  // A client that was killed reads no more: that is its end, and no failure.
  stdin.once('end', hangUp).once('close', hangUp).once('error', hangUp)
  stdout.once('error', hangUp)
  signal.addEventListener('abort', hangUp, { once: true })
  await server.connect(new StdioServerTransport(stdin, stdout, { maxBufferSize: STDIO_MESSAGE_MAX_BYTES }))
  server.onclose = hangUp
  if (signal.aborted) hangUp()
  if (!over.signal.aborted) await once(over.signal, 'abort')
  await server.close()
  await callsEnded()
}
