import type { Duplex } from 'node:stream'
import type { GuestPorts, ListeningPort } from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { checkList, checkListeningPort } from './info-check.ts'
import { PortConnection } from './port-connection.ts'

export class AgentPorts implements GuestPorts {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async connect(
    port: number,
    { signal, ...options }: { host?: '127.0.0.1' | '::1'; signal?: AbortSignal } = {},
  ): Promise<Duplex> {
    const channel = await this.#client.open('port.connect', { port, ...options }, { signal })
    return this.#client.explain(PortConnection.open(channel))
  }

  async wait(
    port: number,
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<ListeningPort> {
    return checkListeningPort(await this.#client.call('port.wait', { port, timeoutMs }, { signal }))
  }

  async list(): Promise<readonly ListeningPort[]> {
    return checkList(await this.#client.call('port.list', {}), 'ports', checkListeningPort)
  }
}
