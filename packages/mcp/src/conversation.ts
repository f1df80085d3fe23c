import { type Dormouse, DormouseError, Sandbox } from 'dormouse'
import { UNNAMED_IDLE_MS } from './limits.ts'

export interface ConversationOptions {
  readonly client: Dormouse
  /** The sandbox that is used when none is named. */
  readonly sandbox: string
  /** Somebody chose that name, and will come back to it. */
  readonly isNamed: boolean
}

export interface Found {
  readonly sandbox: Sandbox
  /** What the model has to know about it, because it is not what it would expect. */
  readonly note?: string
}

/** What a client talks about: the server, and a sandbox of its own. */
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

  /** The one that is named, or the conversation's own, which is made when it is not there. */
  async sandbox(named: string | undefined, signal: AbortSignal): Promise<Found> {
    const which = { client: this.client, signal }
    if (named !== undefined && named !== this.name) return { sandbox: await Sandbox.connect(named, which) }
    const found = await this.#findOwn(signal)
    const sandbox = found ?? (await Sandbox.getOrCreate(this.name, this.#whatToCreate(), which))
    const before = this.#ownId
    this.#ownId = sandbox.id
    if (before === undefined || before === sandbox.id) return { sandbox }
    return {
      sandbox,
      note: `The sandbox "${this.name}" was deleted and this is a new one: earlier variables and files are gone.`,
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

  #whatToCreate() {
    return {
      metadata: { via: 'mcp' },
      ...(this.isNamed ? {} : { expires: { idleMs: UNNAMED_IDLE_MS, action: 'delete' as const } }),
    }
  }
}
