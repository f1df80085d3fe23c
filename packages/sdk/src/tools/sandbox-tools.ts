import { DormouseError } from '../error.ts'
import { Sandbox } from '../sandbox.ts'
import { bounded } from './describe-run.ts'
import { FILE_TOOLS } from './file-tools.ts'
import { checkInput, type InputSchema } from './input-schema.ts'
import { RUN_TOOLS } from './run-tools.ts'
import type { SandboxToolName, ToolCallOptions, ToolDefinition } from './tool-definition.ts'
import { type ToolOutput, toolOutput } from './tool-output.ts'

/** A tool of a sandbox, for any framework that takes JSON Schema and a function. */
export interface SandboxTool {
  readonly name: SandboxToolName
  readonly description: string
  readonly inputSchema: InputSchema
  /** Failures of the tool and of the code are results for the model. Throws only `cancelled`. */
  execute(input: unknown, options?: ToolCallOptions): Promise<ToolOutput>
}

/** A sandbox, or a function that returns one when a tool is first used. Absent: a new sandbox, created at first use. */
export type SandboxSource = Sandbox | (() => Sandbox | Promise<Sandbox>)

export interface SandboxToolsOptions {
  readonly sandbox?: SandboxSource | undefined
  /** Default: all of them. */
  readonly only?: readonly SandboxToolName[] | undefined
}

const DEFINITIONS: readonly ToolDefinition[] = [...RUN_TOOLS, ...FILE_TOOLS]

/** The six tools of a sandbox. All of them use the same one, so state is kept from call to call. */
export function sandboxTools(options: SandboxToolsOptions = {}): readonly SandboxTool[] {
  const find = sandboxFinder(options.sandbox)
  const { only } = options
  const unknown = only?.find((name) => !DEFINITIONS.some((each) => each.name === name))
  if (unknown !== undefined)
    throw new DormouseError('invalid_argument', `only: ${JSON.stringify(unknown)} is not a tool`, {
      hint: `The tools are ${DEFINITIONS.map(({ name }) => name).join(', ')}.`,
    })
  return DEFINITIONS.filter(({ name }) => only?.includes(name) ?? true).map((definition) => ({
    name: definition.name,
    description: definition.description,
    inputSchema: definition.inputSchema,
    execute: (input, call = {}) => executeTool(definition, { find, input, call }),
  }))
}

/** Finds or creates the sandbox once, when it is first needed. */
export function sandboxFinder(source: SandboxSource | undefined): () => Promise<Sandbox> {
  let found: Promise<Sandbox> | undefined
  return () => {
    found ??= Promise.resolve(typeof source === 'function' ? source() : (source ?? Sandbox.create()))
    // The next call tries again.
    found.catch(() => {
      found = undefined
    })
    return found
  }
}

async function executeTool(
  { inputSchema, run }: ToolDefinition,
  { find, input, call }: { find: () => Promise<Sandbox>; input: unknown; call: ToolCallOptions },
): Promise<ToolOutput> {
  try {
    const checked = checkInput(inputSchema, input)
    return await run(await find(), checked as never, call)
  } catch (error) {
    if (call.signal?.aborted === true || !(error instanceof DormouseError)) throw error
    const hint = error.hint === '' ? '' : `\nHint: ${error.hint}`
    return toolOutput(bounded(`${error.code}: ${error.message}${hint}`), { isError: true })
  }
}
