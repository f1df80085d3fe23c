import type { Sandbox } from '../sandbox.ts'
import type { InputSchema } from './input-schema.ts'
import type { ToolOutput } from './tool-output.ts'

export type SandboxToolName =
  | 'run_python'
  | 'run_shell'
  | 'read_file'
  | 'write_file'
  | 'list_files'
  | 'preview_url'

export interface ToolCallOptions {
  /** Aborting interrupts the code or kills the command, and the call throws `cancelled`. */
  readonly signal?: AbortSignal | undefined
  /** Gets stdout and stderr while the code runs. */
  readonly onOutput?: ((text: string) => void) | undefined
}

/** A tool before it has a sandbox. */
export interface ToolDefinition {
  readonly name: SandboxToolName
  /** For the model: what it does, what it keeps, when to use it, what it returns. */
  readonly description: string
  readonly inputSchema: InputSchema
  readonly run: (sandbox: Sandbox, input: never, options: ToolCallOptions) => Promise<ToolOutput>
}
