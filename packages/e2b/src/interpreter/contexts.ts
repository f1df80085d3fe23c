import { randomUUID } from 'node:crypto'
import { hasErrorCode, type Language } from '@dormouse/contracts'
import type { BackendSandbox } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import { isLanguage } from './languages.ts'

/** The context that code without a context runs in. */
const DEFAULT = 'default'
const HOME = '/home/user'

export interface CodeContext {
  readonly id: string
  readonly language: Language
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

  /** Throws `ApiError` 500, as E2B does, for a language that the sandbox does not have. */
  async create(
    sandbox: BackendSandbox,
    { language, cwd = HOME, id = `e2b-${randomUUID()}` }: { language: string; cwd?: string; id?: string },
  ): Promise<CodeContext> {
    const missing = `Failed to create context: there is no kernel for ${language} in this sandbox`
    if (!isLanguage(language)) throw new ApiError(500, missing)
    const what = `creating context ${id}`
    try {
      await sandbox.use({ cause: 'context', what }, (guest) =>
        guest.contexts.create({ context: id, cwd, language }),
      )
    } catch (error) {
      if (hasErrorCode(error, 'language_missing')) throw new ApiError(500, missing)
      if (!hasErrorCode(error, 'already_exists')) throw error
    }
    return this.#remember(sandbox, { id, language, cwd })
  }

  async list(sandbox: BackendSandbox): Promise<CodeContext[]> {
    const contexts = await sandbox.use({ cause: 'context', what: 'listing contexts' }, (guest) =>
      guest.contexts.list(),
    )
    return contexts.map(({ context, language }) => {
      const known = this.#find(sandbox, context, language)
      return { id: known.id, language: known.language, cwd: known.cwd }
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
    if (language === 'python') return this.#find(sandbox, DEFAULT, language)
    const id = `e2b-${language}`
    return this.#known.get(sandbox.id)?.get(id) ?? this.create(sandbox, { language, id })
  }

  async remove(sandbox: BackendSandbox, id: string): Promise<void> {
    await this.get(sandbox, id)
    await sandbox.use({ cause: 'context', what: `deleting context ${id}` }, (guest) =>
      guest.contexts.delete(id),
    )
    this.#known.get(sandbox.id)?.delete(id)
  }

  /** Replaces the kernel; the context keeps its id and directory. */
  async restart(sandbox: BackendSandbox, id: string): Promise<void> {
    const { language, cwd } = await this.get(sandbox, id)
    await sandbox.use({ cause: 'context', what: `restarting context ${id}` }, async (guest) => {
      await guest.contexts.delete(id)
      if (id === DEFAULT) return
      try {
        await guest.contexts.create({ context: id, cwd, language })
      } catch (error) {
        if (!hasErrorCode(error, 'already_exists')) throw error
      }
    })
    this.#remember(sandbox, { id, language, cwd })
  }

  countExecution(sandbox: BackendSandbox, id: string): number {
    const known = this.#find(sandbox, id, 'python')
    known.executions += 1
    return known.executions
  }

  #find(sandbox: BackendSandbox, id: string, language: Language): Known {
    return this.#known.get(sandbox.id)?.get(id) ?? this.#remember(sandbox, { id, language, cwd: HOME })
  }

  #remember(sandbox: BackendSandbox, context: CodeContext): Known {
    const contexts = this.#known.get(sandbox.id) ?? new Map<string, Known>()
    this.#known.set(sandbox.id, contexts)
    const known = { ...context, executions: 0 }
    contexts.set(context.id, known)
    return known
  }
}
