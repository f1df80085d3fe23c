import { DormouseError, type Sandbox } from 'dormouse'
import { UsageError } from './cli-error.ts'
import type { Language } from './language.ts'
import { omitUndefined } from './omit-undefined.ts'

export interface NewContext {
  readonly language: Language | undefined
  /** An interpreter, or the directory of a virtual environment. */
  readonly python: string | undefined
  readonly signal: AbortSignal
}

/** Creates the context unless it exists: `run` and `repl` take any name. */
export async function ensureContext(
  sandbox: Sandbox,
  name: string | undefined,
  { language, python, signal }: NewContext,
): Promise<void> {
  if (name === undefined || name === 'default') {
    if (python === undefined) return
    throw new UsageError('--python is for a new context', 'Name it with --context NAME.')
  }
  try {
    await sandbox.contexts.create(name, { signal, ...omitUndefined({ language, python }) })
  } catch (error) {
    if (!(error instanceof DormouseError) || error.code !== 'already_exists') throw error
  }
}
