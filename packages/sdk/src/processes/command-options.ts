import type { ProcessAnswer, ProcessEventAnswer, StartProcessBody } from '../contract/index.ts'
import type { Content } from '../http/content.ts'
import type { Abortable } from '../options.ts'

/** A line for `bash -c`, or a program and its arguments without a shell. */
export type CommandLine = string | readonly string[]

/** A process, running or ended. */
export type ProcessInfo = ProcessAnswer
/** An event of a process; `seq` starts at 0 and increases by one, and `exit` is the last event. */
export type ProcessEvent = ProcessEventAnswer

export interface StartOptions
  extends Abortable,
    Pick<StartProcessBody, 'cwd' | 'env' | 'user' | 'timeoutMs'> {
  /** Whether the command keeps the sandbox awake until it ends. Default: true. `false` suits servers. */
  readonly keepAwake?: boolean
  /** Keep stdin open for `sendStdin`; otherwise it is empty. */
  readonly stdin?: boolean
}

export interface OutputListeners {
  readonly onStdout?: ((text: string) => void) | undefined
  readonly onStderr?: ((text: string) => void) | undefined
}

export interface RunCommandOptions
  extends Abortable,
    OutputListeners,
    Pick<StartProcessBody, 'cwd' | 'env' | 'user' | 'timeoutMs'> {
  /** Its stdin: text, bytes or a stream. Default: empty. */
  readonly input?: Content | undefined
}

export function commandBody(command: CommandLine): Pick<StartProcessBody, 'command' | 'args'> {
  return typeof command === 'string' ? { command } : { args: [...command] }
}
