import { DormouseError, hasCode } from '../error.ts'
import type { RunResult } from '../runs/run-result.ts'
import type { Sandbox } from '../sandbox.ts'
import { bounded, describeRun } from '../tools/describe-run.ts'
import type { InputSchema } from '../tools/input-schema.ts'
import { type SandboxSource, type SandboxTool, sandboxFinder, sandboxTools } from '../tools/sandbox-tools.ts'
import { type ToolOutput, toolOutput } from '../tools/tool-output.ts'
import { editText, type TextEdit } from './text-editor.ts'

/** The context in which the bash tool keeps its directory and variables. */
const BASH_CONTEXT = 'anthropic-bash'

/** A tool for `tools` of a request to the Messages API. */
export type AnthropicTool =
  | { readonly type: 'bash_20250124'; readonly name: 'bash' }
  | { readonly type: 'text_editor_20250728'; readonly name: 'str_replace_based_edit_tool' }
  | { readonly name: string; readonly description: string; readonly input_schema: InputSchema }

interface ToolUse {
  readonly type: 'tool_use'
  readonly id: string
  readonly name: string
  readonly input: unknown
}

type Content =
  | { readonly type: 'text'; readonly text: string }
  | {
      readonly type: 'image'
      readonly source: { readonly type: 'base64'; readonly media_type: string; readonly data: string }
    }

/** The answer to a `tool_use` block, for the next message of the user. */
export interface ToolResultBlock {
  readonly type: 'tool_result'
  readonly tool_use_id: string
  readonly content: readonly Content[]
  readonly is_error: boolean
}

export interface AnthropicTools {
  /** For `tools` of `messages.create()`: bash, the text editor, run_python and preview_url. */
  readonly tools: readonly AnthropicTool[]
  /** Answers every `tool_use` block of a message, in their order. Empty: the model is done. */
  answer(
    message: { readonly content: readonly { readonly type: string }[] },
    options?: { readonly signal?: AbortSignal },
  ): Promise<ToolResultBlock[]>
}

/** A sandbox behind the client-side tools of Anthropic's Messages API. */
export function dormouseTools({ sandbox }: { readonly sandbox?: SandboxSource } = {}): AnthropicTools {
  const find = sandboxFinder(sandbox)
  const ours = sandboxTools({ sandbox: find, only: ['run_python', 'preview_url'] })
  return {
    tools: [
      { type: 'bash_20250124', name: 'bash' },
      { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool' },
      ...ours.map(({ name, description, inputSchema }) => ({ name, description, input_schema: inputSchema })),
    ],
    answer: async ({ content }, { signal } = {}) => {
      const answers: ToolResultBlock[] = []
      // One after the other: a later call may need what an earlier one made.
      for (const block of content)
        if (isToolUse(block)) answers.push(await answerToolUse(block, { find, ours, signal }))
      return answers
    },
  }
}

/** A run in the shape of the result of Anthropic's own code execution tool. */
export function codeExecutionResult(run: RunResult): {
  readonly type: 'code_execution_result'
  readonly stdout: string
  readonly stderr: string
  readonly return_code: number
  readonly content: readonly never[]
} {
  const stdout = run.text === undefined ? run.stdout : `${run.stdout}${run.text}\n`
  return {
    type: 'code_execution_result',
    stdout: bounded(stdout),
    stderr: bounded(run.stderr),
    return_code: run.exitCode,
    content: [],
  }
}

interface Answering {
  readonly find: () => Promise<Sandbox>
  readonly ours: readonly SandboxTool[]
  readonly signal: AbortSignal | undefined
}

async function answerToolUse(use: ToolUse, { find, ours, signal }: Answering): Promise<ToolResultBlock> {
  const { text, images, isError } = await run(use, { find, ours, signal }).catch((error: unknown) => {
    if (signal?.aborted === true || !(error instanceof DormouseError)) throw error
    return toolOutput(`${error.code}: ${error.message}\nHint: ${error.hint}`, { isError: true })
  })
  const content: Content[] = [
    { type: 'text', text },
    ...images.map(({ mediaType, data }) => ({
      type: 'image' as const,
      source: { type: 'base64' as const, media_type: mediaType, data },
    })),
  ]
  return { type: 'tool_result', tool_use_id: use.id, content, is_error: isError }
}

async function run({ name, input }: ToolUse, { find, ours, signal }: Answering): Promise<ToolOutput> {
  if (name === 'bash') return bash(await find(), input as { command?: unknown; restart?: unknown }, signal)
  if (name === 'str_replace_based_edit_tool')
    return toolOutput(await editText(await find(), input as TextEdit, signal))
  const tool = ours.find((each) => each.name === name)
  if (tool === undefined)
    throw new DormouseError('not_found', `There is no tool ${JSON.stringify(name)}.`, {
      hint: 'Use one of the tools of the request.',
    })
  return tool.execute(input, { signal })
}

async function bash(
  sandbox: Sandbox,
  { command, restart }: { command?: unknown; restart?: unknown },
  signal: AbortSignal | undefined,
): Promise<ToolOutput> {
  if (restart === true) {
    await sandbox.contexts.delete(BASH_CONTEXT, { signal }).catch((error: unknown) => {
      // It was not used yet.
      if (!hasCode(error, 'not_found')) throw error
    })
    return toolOutput('[bash was restarted]')
  }
  if (typeof command !== 'string')
    throw new DormouseError('invalid_argument', 'command: must be text', { hint: 'Give a command.' })
  return describeRun(await sandbox.runCode(command, { language: 'bash', context: BASH_CONTEXT, signal }))
}

function isToolUse(block: { readonly type: string }): block is ToolUse {
  return block.type === 'tool_use'
}
