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
  // biome-ignore lint/suspicious/noExplicitAny: an image has another type in version 5 than in versions 6 and 7.
  readonly value: any[]
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
    // Versions 6 and 7 pass the whole call, version 5 only its output.
    toModelOutput: (call) =>
      'output' in call && !('text' in call)
        ? modelOutput(call.output as AiToolOutput, 'image-data')
        : modelOutput(call as AiToolOutput, 'media'),
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

function modelOutput({ text, images = [] }: AiToolOutput, image: 'image-data' | 'media'): AiModelOutput {
  return {
    type: 'content',
    value: [{ type: 'text', text }, ...images.map((one) => ({ type: image, ...one }))],
  }
}
