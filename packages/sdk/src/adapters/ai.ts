import { jsonSchema, type Schema } from 'ai'
import { type SandboxTool, type SandboxToolsOptions, sandboxTools } from '../tools/sandbox-tools.ts'
import type { ToolOutput } from '../tools/tool-output.ts'

/** What a tool shows while it runs, and in the end with its images. */
export interface AiToolOutput extends Partial<Omit<ToolOutput, 'text'>> {
  readonly text: string
}

/** A tool of the Vercel AI SDK. */
export interface AiTool {
  readonly description: string
  readonly inputSchema: Schema<object>
  /** Streams output while the code runs; the last value is the result. */
  execute(input: object, options: { readonly abortSignal?: AbortSignal }): AsyncIterable<AiToolOutput>
  toModelOutput(call: AiToolOutput | { readonly output: unknown }): AiModelOutput
}

interface AiModelOutput {
  readonly type: 'content'
  readonly value: (
    | { readonly type: 'text'; readonly text: string }
    | { readonly type: 'media'; readonly data: string; readonly mediaType: string }
  )[]
}

/** The tools of a sandbox for `generateText`, `streamText` and agents of the Vercel AI SDK. */
export function dormouseTools(options: SandboxToolsOptions = {}): Record<string, AiTool> {
  return Object.fromEntries(sandboxTools(options).map((tool) => [tool.name, aiTool(tool)]))
}

function aiTool(tool: SandboxTool): AiTool {
  return {
    description: tool.description,
    inputSchema: jsonSchema(tool.inputSchema),
    execute: (input, { abortSignal }) => streamTool(tool, input, abortSignal),
    toModelOutput: (call) => modelOutput(outputOf(call)),
  }
}

async function* streamTool(
  tool: SandboxTool,
  input: object,
  signal: AbortSignal | undefined,
): AsyncGenerator<AiToolOutput> {
  let text = ''
  let wake = () => {}
  let isDone = false
  const onOutput = (piece: string) => {
    text += piece
    wake()
  }
  const result = tool.execute(input, { signal, onOutput }).finally(() => {
    isDone = true
    wake()
  })
  // A caller that stops reading never awaits it.
  result.catch(() => {})
  for (let shown = ''; !isDone; ) {
    if (text === shown)
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    if (isDone || text === shown) continue
    shown = text
    yield { text }
  }
  yield await result
}

/** Version 6 passes the whole call, version 5 only its output. */
function outputOf(call: AiToolOutput | { readonly output: unknown }): AiToolOutput {
  return 'output' in call && !('text' in call) ? (call.output as AiToolOutput) : (call as AiToolOutput)
}

function modelOutput({ text, images = [] }: AiToolOutput): AiModelOutput {
  return {
    type: 'content',
    value: [{ type: 'text', text }, ...images.map((image) => ({ type: 'media' as const, ...image }))],
  }
}
