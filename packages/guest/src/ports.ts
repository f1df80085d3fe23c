import type { Duplex } from 'node:stream'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { GuestPorts, ListeningPort } from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { checkList, checkListeningPort } from './check-answers.ts'
import { PortConnection } from './port-connection.ts'

/** Added to the time-out of a wait, which the agent itself enforces. */
const WAIT_GRACE_MS = 30_000

export class AgentPorts implements GuestPorts {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async connect(port: number, { signal }: { signal?: AbortSignal } = {}): Promise<Duplex> {
    const channel = await this.#client.open('port.connect', { port }, { signal })
    return this.#client.answer(channel, PortConnection.open(channel)).catch((cause: unknown) => {
      if (!hasErrorCode(cause, 'port_closed')) throw cause
      throw new DormouseError('port_closed', cause.message, { details: { port }, cause })
    })
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
