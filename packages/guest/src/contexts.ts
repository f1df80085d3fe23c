import type { RunEvent } from '@dormouse/contracts'
import type { Completions, ContextInfo, CreateContext, Follow, GuestContexts } from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { checkCompletions, checkContextInfo, checkList, checkText } from './check-answers.ts'
import { checkRunEvent } from './check-events.ts'

export class AgentContexts implements GuestContexts {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async create(request: CreateContext): Promise<ContextInfo> {
    return checkContextInfo(await this.#client.call('context.create', request))
  }

  async list(): Promise<readonly ContextInfo[]> {
    return checkList(await this.#client.call('context.list', {}), 'contexts', checkContextInfo)
  }

  async delete(context: string): Promise<void> {
    await this.#client.call('context.delete', { context })
  }

  async preload(
    modules: readonly string[],
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<readonly string[]> {
    return checkList(await this.#client.call('context.preload', { modules }, { signal }), 'failed', checkText)
  }

  /**
   * For the snapshot of a template: the context `default` starts over, and the memory of its kernel and of the agent
   * becomes ready to be shared. With `gather`, code of functions that ran since the last call gets together.
   */
  async settle({ gather = false } = {}): Promise<void> {
    await this.#client.call('context.settle', { gather })
  }

  async complete(
    context: string,
    code: string,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<Completions> {
    return checkCompletions(await this.#client.call('context.complete', { context, code }, { signal }))
  }

  output(context: string, { signal, ...position }: Follow = {}): AsyncIterable<RunEvent> {
    return this.#client.stream('context.output', { context, ...position }, { check: checkRunEvent, signal })
  }
}
