import { DormouseError, type Sandbox } from 'dormouse'

/** Creates the context unless it exists: `run` and `repl` take any name. */
export async function ensureContext(sandbox: Sandbox, name: string, signal: AbortSignal): Promise<void> {
  if (name === 'default') return
  try {
    await sandbox.contexts.create(name, { signal })
  } catch (error) {
    if (!(error instanceof DormouseError) || error.code !== 'already_exists') throw error
  }
}
