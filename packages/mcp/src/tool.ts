import type { CallToolResult, ToolAnnotations } from '@modelcontextprotocol/sdk/types.js'
import type { z } from 'zod'
import type { Conversation } from './conversation.ts'

export interface ToolCall {
  readonly conversation: Conversation
  /** Aborted when the call ends before its answer. */
  readonly signal: AbortSignal
  /** What aborted `signal`: a user who cancelled, a client that waited too long, or the end of the connection. */
  readonly endedBy: () => 'user' | 'timeout' | 'disconnect'
  /** Shows output as progress to a client that asked for it. */
  readonly onOutput: (output: string) => void
}

/** The result of a tool: `structured` is for programs, `content` for the model. */
export interface ToolAnswer<Structured> {
  readonly structured: Structured
  /** Default: `structured` as JSON. */
  readonly content?: CallToolResult['content']
  /** The tool worked, but the code that it ran failed. */
  readonly isError?: boolean
}

export interface Tool {
  readonly name: string
  readonly title: string
  /** For the model: what it does, what it keeps, when to use it, what it returns. */
  readonly description: string
  readonly input: z.ZodObject
  readonly output: z.ZodObject
  readonly annotations: ToolAnnotations
  readonly call: (input: never, call: ToolCall) => Promise<ToolAnswer<object>>
}

interface Definition<Input extends z.ZodObject, Output extends z.ZodObject> extends Omit<Tool, 'call'> {
  readonly input: Input
  readonly output: Output
  readonly call: (input: z.output<Input>, call: ToolCall) => Promise<ToolAnswer<z.input<Output>>>
}

/** Checks the types of a tool against its schemas. */
export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(
  tool: Definition<Input, Output>,
): Tool {
  return tool
}
