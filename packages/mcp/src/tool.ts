import type { CallToolResult, ToolAnnotations } from '@modelcontextprotocol/sdk/types.js'
import type { z } from 'zod'
import type { Conversation } from './conversation.ts'

export interface ToolCall {
  readonly conversation: Conversation
  /** Aborted when the client cancels the call. */
  readonly signal: AbortSignal
  /** Shows output of what is going on to a client that listens. */
  readonly say: (output: string) => void
}

/** What a tool answers: `structured` for programs, the rest of it for the model. */
export interface ToolAnswer<Structured> {
  readonly structured: Structured
  /** The structured part as JSON if not given. */
  readonly content?: CallToolResult['content']
  /** It did what it should, and what it was given to do failed. */
  readonly isError?: boolean
}

export interface Tool {
  readonly name: string
  readonly title: string
  /** For a model: what it does, what it keeps, when to use it, what comes back. */
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

/** Holds a tool to its own schemas. */
export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(
  tool: Definition<Input, Output>,
): Tool {
  return tool
}
