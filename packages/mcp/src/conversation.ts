import { type CreateOptions, type Dormouse, DormouseError, Sandbox } from 'dormouse'
import { UNNAMED_IDLE_MS } from './limits.ts'
import type { ToolRun } from './runs/tool-run.ts'

export interface ConversationOptions {
  readonly client: Dormouse
  /** Options of the sandbox, for the case that it does not exist. */
  readonly create?: Pick<CreateOptions, 'template' | 'limits' | 'network'> | undefined
  /** The sandbox for calls that name none. */
  readonly sandbox: string
  /** A user chose that name, and will use it again. */
  readonly isNamed: boolean
}

export interface Found {
  readonly sandbox: Sandbox
  /** Something unexpected that the model must know. */
  readonly note?: string
}

/** A client of the server, and the sandbox of this conversation. */
export class Conversation {
  readonly client: Dormouse
  readonly name: string
  readonly isNamed: boolean
  /** The last run that this conversation started, and the id of its sandbox. */
  lastRun: { readonly run: ToolRun; readonly sandboxId: string } | undefined
  /** A run that continues although its call has ended without an answer. */
  cutOff: ToolRun | undefined
  readonly #create: ConversationOptions['create']
  #ownId: string | undefined

  constructor({ client, sandbox, isNamed, create }: ConversationOptions) {
    this.client = client
    this.name = sandbox
    this.isNamed = isNamed
    this.#create = create
  }

  /** Returns the named sandbox, or that of the conversation, which it creates if it does not exist. */
  async sandbox(named: string | undefined, signal: AbortSignal): Promise<Found> {
    const which = { client: this.client, signal }
    if (named !== undefined && named !== this.name) return { sandbox: await Sandbox.connect(named, which) }
    const found = await this.findOwn(signal)
    const sandbox = found ?? (await Sandbox.getOrCreate(this.name, this.#createOptions(), which))
    const before = this.#ownId
    this.#ownId = sandbox.id
    if (before === undefined || before === sandbox.id) return { sandbox }
    return {
      sandbox,
      note: `The sandbox "${this.name}" was deleted. This is a new one without the earlier variables and files.`,
    }
  }

  /** The sandbox of the conversation, unless it does not exist. */
  async findOwn(signal: AbortSignal): Promise<Sandbox | undefined> {
    try {
      return await Sandbox.connect(this.name, { client: this.client, signal })
    } catch (error) {
      if (error instanceof DormouseError && error.code === 'not_found') return undefined
      throw error
    }
  }

  #createOptions() {
    return {
      ...this.#create,
      metadata: { via: 'mcp' },
      ...(this.isNamed ? {} : { expires: { idleMs: UNNAMED_IDLE_MS, action: 'delete' as const } }),
    }
  }
}
