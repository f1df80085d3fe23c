import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

const KEPT_LINES = 1000

/** The history of the REPL in a file that only the user can read. */
export class ReplHistory {
  readonly path: string

  constructor(env: Readonly<Record<string, string | undefined>>) {
    const state = env['XDG_STATE_HOME'] || join(env['HOME'] || homedir(), '.local/state')
    this.path = join(state, 'dormouse/repl-history')
  }

  read(): string[] {
    try {
      return readFileSync(this.path, 'utf8').split('\n').filter(Boolean).reverse()
    } catch {
      return []
    }
  }

  /** The REPL works without a history, so failures are ignored. */
  write(newestFirst: readonly string[]): void {
    const lines = newestFirst.slice(0, KEPT_LINES).reverse()
    try {
      mkdirSync(dirname(this.path), { recursive: true, mode: 0o700 })
      const draft = `${this.path}.${process.pid}`
      writeFileSync(draft, `${lines.join('\n')}\n`, { mode: 0o600 })
      renameSync(draft, this.path)
    } catch {
      // See above.
    }
  }
}
