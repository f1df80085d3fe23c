import { type Dormouse, DormouseError, Sandbox } from 'dormouse'
import { UNNAMED_IDLE_MS } from './limits.ts'

export interface ConversationOptions {
  readonly client: Dormouse
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
  #ownId: string | undefined

  constructor({ client, sandbox, isNamed }: ConversationOptions) {
    this.client = client
    this.name = sandbox
    this.isNamed = isNamed
  }

  /** Returns the named sandbox, or that of the conversation, which it creates if it does not exist. */
  async sandbox(named: string | undefined, signal: AbortSignal): Promise<Found> {
    const which = { client: this.client, signal }
    if (named !== undefined && named !== this.name) return { sandbox: await Sandbox.connect(named, which) }
    const found = await this.#findOwn(signal)
    const sandbox = found ?? (await Sandbox.getOrCreate(this.name, this.#createOptions(), which))
    const before = this.#ownId
    this.#ownId = sandbox.id
    if (before === undefined || before === sandbox.id) return { sandbox }
    return {
      sandbox,
      note: `The sandbox "${this.name}" was deleted. This is a new one without the earlier variables and files.`,
    }
  }

  async #findOwn(signal: AbortSignal): Promise<Sandbox | undefined> {
    try {
      return await Sandbox.connect(this.name, { client: this.client, signal })
    } catch (error) {
      if (error instanceof DormouseError && error.code === 'not_found') return undefined
      throw error
    }
  }

  #createOptions() {
    return {
      metadata: { via: 'mcp' },
      ...(this.isNamed ? {} : { expires: { idleMs: UNNAMED_IDLE_MS, action: 'delete' as const } }),
    }
  }
}
