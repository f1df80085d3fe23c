import type { ContextVariables, GuestVariables, ReadRows, VariableDetail } from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { checkVariableDetail, checkVariables } from './check-variables.ts'

export class AgentVariables implements GuestVariables {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async list(
    options: { signal?: AbortSignal; timeoutMs?: number } = {},
  ): Promise<readonly ContextVariables[]> {
    return checkVariables(await this.#client.call('variable.list', {}, options))
  }

  async rows(request: ReadRows, { signal }: { signal?: AbortSignal } = {}): Promise<VariableDetail> {
    return checkVariableDetail(await this.#client.call('variable.rows', request, { signal }))
  }
}
