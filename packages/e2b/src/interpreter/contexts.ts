import { randomUUID } from 'node:crypto'
import { hasErrorCode } from '@dormouse/contracts'
import type { BackendSandbox } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import { SUPPORTED } from './languages.ts'

/** The context that code without a context runs in. */
const DEFAULT = 'default'
const HOME = '/home/user'

export interface CodeContext {
  readonly id: string
  readonly language: string
  readonly cwd: string
}

interface Known extends CodeContext {
  executions: number
}

/**
 * Contexts of code, with the language, directory and number of executions that clients ask for. A context that a server
 * before this one created counts its executions from zero.
 */
export class CodeContexts {
  readonly #known = new Map<string, Map<string, Known>>()

  forget(sandboxId: string): void {
    this.#known.delete(sandboxId)
  }

  async create(sandbox: BackendSandbox, { language, cwd = HOME }: { language: string; cwd?: string }) {
    if (!SUPPORTED.has(language))
      throw new ApiError(500, `Failed to create context: there is no kernel for ${language} in this sandbox`)
    const context = { id: `e2b-${randomUUID()}`, language, cwd }
    await sandbox.use({ cause: 'context', what: `creating context ${context.id}` }, (guest) =>
      guest.contexts.create({ context: context.id, cwd }),
    )
    this.#remember(sandbox, context)
    return context
  }

  async list(sandbox: BackendSandbox): Promise<CodeContext[]> {
    const contexts = await sandbox.use({ cause: 'context', what: 'listing contexts' }, (guest) =>
      guest.contexts.list(),
    )
    return contexts.map(({ context }) => {
      const { id, language, cwd } = this.#find(sandbox, context)
      return { id, language, cwd }
    })
  }

  /** Throws `ApiError` 404. */
  async get(sandbox: BackendSandbox, id: string): Promise<CodeContext> {
    const found = (await this.list(sandbox)).find((context) => context.id === id)
    if (found === undefined) throw new ApiError(404, `Context ${id} not found`)
    return found
  }

  /** The context of code that names only its language, or nothing. */
  async getDefault(sandbox: BackendSandbox, language: string): Promise<CodeContext> {
    if (language === 'python') return this.#find(sandbox, DEFAULT)
    const known = this.#known.get(sandbox.id)?.get(`${DEFAULT}:${language}`)
    if (known !== undefined) return known
    const created = await this.create(sandbox, { language })
    this.#known.get(sandbox.id)?.set(`${DEFAULT}:${language}`, this.#find(sandbox, created.id))
    return created
  }

  async remove(sandbox: BackendSandbox, id: string): Promise<void> {
    await this.get(sandbox, id)
    await sandbox.use({ cause: 'context', what: `deleting context ${id}` }, (guest) =>
      guest.contexts.delete(id),
    )
    const known = this.#known.get(sandbox.id)
    for (const [key, context] of known ?? []) if (context.id === id) known?.delete(key)
  }

  /** Replaces the kernel; the context keeps its id and directory. */
  async restart(sandbox: BackendSandbox, id: string): Promise<void> {
    const { language, cwd } = await this.get(sandbox, id)
    await sandbox.use({ cause: 'context', what: `restarting context ${id}` }, async (guest) => {
      await guest.contexts.delete(id)
      if (id === DEFAULT) return
      try {
        await guest.contexts.create({ context: id, cwd })
      } catch (error) {
        if (!hasErrorCode(error, 'already_exists')) throw error
      }
    })
    this.#remember(sandbox, { id, language, cwd })
  }

  countExecution(sandbox: BackendSandbox, id: string): number {
    const known = this.#find(sandbox, id)
    known.executions += 1
    return known.executions
  }

  #find(sandbox: BackendSandbox, id: string): Known {
    return (
      this.#known.get(sandbox.id)?.get(id) ?? this.#remember(sandbox, { id, language: 'python', cwd: HOME })
    )
  }

  #remember(sandbox: BackendSandbox, context: CodeContext): Known {
    const contexts = this.#known.get(sandbox.id) ?? new Map<string, Known>()
    this.#known.set(sandbox.id, contexts)
    const known = { ...context, executions: 0 }
    contexts.set(context.id, known)
    return known
  }
}
