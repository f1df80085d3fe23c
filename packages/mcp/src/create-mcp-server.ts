import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js'
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
import { CALLS_AT_ONCE_MAX } from './limits.ts'
import { Progress, type SendProgress } from './progress.ts'
import type { Tool } from './tool.ts'
import { invalidInput, toolError, toolErrorFrom } from './tool-error.ts'
import { TOOLS } from './tools/all.ts'
import { VERSION } from './version.ts'

export interface McpServerOptions extends ConversationOptions {
  /** What went wrong in here, for a log. */
  readonly onProblem?: ((error: unknown) => void) | undefined
  /** What the client did wrong. It was told. */
  readonly onMistake?: ((error: unknown) => void) | undefined
  /** A call that was cancelled has ended; nobody gets an answer to it. */
  readonly onCancelled?: ((id: RequestId) => void) | undefined
}

export interface McpServer {
  /** Connect it to a transport. */
  readonly server: Server
  callsInProgress(): number
  /** Resolves when the calls that are in progress now have ended. */
  callsEnded(): Promise<void>
}

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>

/** The tools, for one conversation. */
export function createMcpServer({
  onProblem,
  onMistake,
  onCancelled,
  ...options
}: McpServerOptions): McpServer {
  const conversation = new Conversation(options)
  const server = new Server(
    { name: 'dormouse', title: 'Dormouse sandboxes', version: VERSION },
    {
      capabilities: { tools: {} },
      instructions: instructionsFor(conversation.name, conversation.isNamed),
    },
  )
  server.onerror = (error) => onMistake?.(error)
  const calls = new Set<Promise<unknown>>()
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: LISTED }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const tool = TOOLS.find(({ name }) => name === params.name)
    if (tool === undefined) throw new McpError(ErrorCode.InvalidParams, `Unknown tool: ${params.name}`)
    if (calls.size >= CALLS_AT_ONCE_MAX) return TOO_MANY_CALLS
    const call = callTool(tool, params.arguments ?? {}, { conversation, extra }).catch((error: unknown) => {
      const known = toolErrorFrom(error)
      if (known !== undefined) return known
      onProblem?.(error)
      const hint = 'This is a bug in Dormouse. The log has the details.'
      return toolError({ code: 'internal', message: 'something went wrong inside', hint })
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
    callsInProgress: () => calls.size,
    callsEnded: async () => void (await Promise.all(calls)),
  }
}

const TOO_MANY_CALLS = toolError({
  code: 'limit_reached',
  message: `this conversation has ${CALLS_AT_ONCE_MAX} calls in progress`,
  hint: 'Wait for some of them to end.',
})

async function callTool(
  tool: Tool,
  given: object,
  { conversation, extra }: { conversation: Conversation; extra: Extra },
): Promise<CallToolResult> {
  const input = tool.input.safeParse(given)
  if (!input.success) return invalidInput(input.error)
  using progress = new Progress(progressOf(extra))
  const { signal } = extra
  const answer = await tool.call(input.data as never, { conversation, signal, say: progress.say })
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

/** Without a dialect: what is used here means the same in all of them, and some clients know only one. */
function jsonSchema(schema: z.ZodObject, io: 'input' | 'output'): ToolListing['inputSchema'] {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io, target: 'draft-7' })
  return rest as ToolListing['inputSchema']
}
