import type {
  ProcessAnswer,
  ProcessEventAnswer,
  ProcessResultAnswer,
  StartProcessBody,
} from '../contract/index.ts'
import type { Abortable } from '../options.ts'

/** A line for `bash -c`, or a program with its arguments and no shell. */
export type CommandLine = string | readonly string[]

/** What is known of a process, running or ended. */
export type ProcessInfo = ProcessAnswer
/** How a command ended, and what it wrote. An exit code other than 0 is a result, and nothing is thrown. */
export type CommandResult = ProcessResultAnswer
/** One thing that a process says; `seq` rises by one from 0, and `exit` is the last. */
export type ProcessEvent = ProcessEventAnswer

export interface StartOptions
  extends Abortable,
    Pick<StartProcessBody, 'cwd' | 'env' | 'user' | 'timeoutMs'> {
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
  /** What the command reads; nothing if not given. */
  readonly input?: string | Uint8Array | undefined
}

export function commandBody(command: CommandLine): Pick<StartProcessBody, 'command' | 'args'> {
  return typeof command === 'string' ? { command } : { args: [...command] }
}
