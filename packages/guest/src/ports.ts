import type { GuestPorts, ListeningPort, PortConnection } from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { checkList, checkListeningPort } from './check-answers.ts'

/** Added to the time-out of a wait, which the agent itself enforces. */
const WAIT_GRACE_MS = 30_000

export class AgentPorts implements GuestPorts {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  connect(port: number, { signal }: { signal?: AbortSignal } = {}): Promise<PortConnection> {
    return this.#client.connectPort(port, signal === undefined ? {} : { signal })
  }

  async wait(
    port: number,
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<ListeningPort> {
    return checkListeningPort(
      await this.#client.call(
        'port.wait',
        { port, timeoutMs },
        { signal, timeoutMs: timeoutMs + WAIT_GRACE_MS },
      ),
    )
  }

  async list(): Promise<readonly ListeningPort[]> {
    return checkList(await this.#client.call('port.list', {}), 'ports', checkListeningPort)
  }
}
