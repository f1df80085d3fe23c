import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
  type RequestId,
  type ServerNotification,
  type ServerRequest,
  type Tool as ToolListing,
} from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import { Conversation, type ConversationOptions } from './conversation.ts'
import { instructionsFor } from './instructions.ts'
import { CONCURRENT_CALLS_MAX } from './limits.ts'
import { Progress, type SendProgress } from './progress.ts'
import { serveResources } from './resources/serve-resources.ts'
import type { Tool } from './tool.ts'
import { invalidInput, toolError, toolErrorFrom } from './tool-error.ts'
import { TOOLS } from './tools/all.ts'
import { VERSION } from './version.ts'

export interface McpServerOptions extends ConversationOptions {
  /** Called with bugs of Dormouse, for a log. */
  readonly onInternalError?: ((error: unknown) => void) | undefined
  /** Called with errors of the client, which has got an answer. */
  readonly onClientError?: ((error: unknown) => void) | undefined
  /** Called when a cancelled call has ended. It gets no answer. */
  readonly onCancelled?: ((id: RequestId) => void) | undefined
}

export interface McpServer {
  readonly server: Server
  connect(transport: Transport): Promise<void>
  callsInProgress(): number
  /** Resolves when the calls in progress have ended. */
  callsEnded(): Promise<void>
}

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>

/** Serves the tools to one conversation. */
export function createMcpServer({
  onInternalError,
  onClientError,
  onCancelled,
  ...options
}: McpServerOptions): McpServer {
  const conversation = new Conversation(options)
  const server = new Server(
    { name: 'dormouse', title: 'Dormouse sandboxes', version: VERSION },
    {
      capabilities: { tools: {}, resources: {} },
      instructions: instructionsFor(conversation.name, conversation.isNamed),
    },
  )
  server.onerror = (error) => onClientError?.(error)
  const calls = new Set<Promise<unknown>>()
  let isDisconnected = false
  serveResources(server, conversation)
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: LISTED }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const tool = TOOLS.find(({ name }) => name === params.name)
    if (tool === undefined) throw new McpError(ErrorCode.InvalidParams, `Unknown tool: ${params.name}`)
    if (calls.size >= CONCURRENT_CALLS_MAX) return TOO_MANY_CALLS
    const call = callTool(tool, params.arguments ?? {}, {
      conversation,
      extra,
      isDisconnected: () => isDisconnected,
    }).catch((error: unknown) => {
      const known = toolErrorFrom(error)
      if (known !== undefined) return known
      onInternalError?.(error)
      const hint = 'This is a bug in Dormouse. The log of the server has the details.'
      return toolError({ code: 'internal', message: 'The call failed because of a bug', hint })
    })
    calls.add(call)
    try {
      return await call
    } finally {
      calls.delete(call)
      if (extra.signal.aborted) onCancelled?.(extra.requestId)
    }
  })
  return {
    server,
    connect: (transport) => {
      // Called before the server aborts its calls, which does not say why it aborts them.
      transport.onclose = () => {
        isDisconnected = true
      }
      return server.connect(transport)
    },
    callsInProgress: () => calls.size,
    callsEnded: async () => void (await Promise.all(calls)),
  }
}

const TOO_MANY_CALLS = toolError({
  code: 'limit_reached',
  message: `this conversation has ${CONCURRENT_CALLS_MAX} calls in progress`,
  hint: 'Wait until some of them have ended.',
})

interface CallContext {
  readonly conversation: Conversation
  readonly extra: Extra
  readonly isDisconnected: () => boolean
}

/**
 * Whether a client cancelled a request because it waited too long. The protocol makes it send the same notification as
 * for a user who cancels; only the reason differs.
 */
function isTimeout(reason: unknown): boolean {
  return /time[ds]?[ -]?out/i.test(String(reason))
}

async function callTool(
  tool: Tool,
  given: object,
  { conversation, extra, isDisconnected }: CallContext,
): Promise<CallToolResult> {
  const input = tool.input.safeParse(given)
  if (!input.success) return invalidInput(input.error)
  using progress = new Progress(progressOf(extra))
  const { signal } = extra
  const endedBy = () => (isDisconnected() ? 'disconnect' : isTimeout(signal.reason) ? 'timeout' : 'user')
  const call = { conversation, signal, endedBy, onOutput: progress.show }
  const answer = await tool.call(input.data as never, call)
  const structuredContent = tool.output.parse(answer.structured)
  return {
    structuredContent,
    content: answer.content ?? [{ type: 'text', text: JSON.stringify(structuredContent) }],
    ...(answer.isError === true && { isError: true }),
  }
}

function progressOf({ _meta, sendNotification }: Extra): SendProgress | undefined {
  const progressToken = _meta?.progressToken
  if (progressToken === undefined) return undefined
  return (params) =>
    sendNotification({ method: 'notifications/progress', params: { progressToken, ...params } })
}

const LISTED: ToolListing[] = TOOLS.map(({ name, title, description, input, output, annotations }) => ({
  name,
  title,
  description,
  annotations: { title, openWorldHint: false, ...annotations },
  inputSchema: jsonSchema(input, 'input'),
  outputSchema: jsonSchema(output, 'output'),
}))

/** Without `$schema`: the schemas mean the same in all dialects, and some clients accept only one. */
function jsonSchema(schema: z.ZodObject, io: 'input' | 'output'): ToolListing['inputSchema'] {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io, target: 'draft-7' })
  return rest as ToolListing['inputSchema']
}
