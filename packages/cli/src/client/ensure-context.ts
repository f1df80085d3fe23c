import { DormouseError, type Sandbox } from 'dormouse'
import type { Language } from './language.ts'

/** Creates the context unless it exists: `run` and `repl` take any name. */
export async function ensureContext(
  sandbox: Sandbox,
  name: string,
  { language, signal }: { language: Language | undefined; signal: AbortSignal },
): Promise<void> {
  if (name === 'default') return
  try {
    await sandbox.contexts.create(name, { signal, ...(language !== undefined && { language }) })
  } catch (error) {
    if (!(error instanceof DormouseError) || error.code !== 'already_exists') throw error
  }
}
