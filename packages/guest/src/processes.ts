import type { ProcessEvent } from '@dormouse/contracts'
import type {
  ByteSource,
  ConnectProcess,
  Follow,
  GuestProcesses,
  ProcessConnection,
  ProcessInfo,
  StartProcess,
} from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { requireByteSource } from './channel.ts'
import { checkCount, checkList, checkProcessInfo } from './check-answers.ts'
import { checkProcessEvent } from './check-events.ts'
import { AgentProcessConnection } from './process-connection.ts'

export class AgentProcesses implements GuestProcesses {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async start(request: StartProcess): Promise<number> {
    return checkCount(await this.#client.call('process.start', { ...request, follow: false }), 'pid')
  }

  stream(request: StartProcess, { signal }: { signal?: AbortSignal } = {}): AsyncIterable<ProcessEvent> {
    return this.#client.stream('process.start', request, { check: checkProcessEvent, signal })
  }

  events(pid: number, { signal, ...position }: Follow = {}): AsyncIterable<ProcessEvent> {
    return this.#client.stream('process.events', { pid, ...position }, { check: checkProcessEvent, signal })
  }

  async connect(
    request: ConnectProcess,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<ProcessConnection> {
    const channel = await this.#client.open('process.connect', request, { signal })
    return this.#client.answer(channel, AgentProcessConnection.open(channel))
  }

  async list(): Promise<readonly ProcessInfo[]> {
    return checkList(await this.#client.call('process.list', {}), 'processes', checkProcessInfo)
  }

  async signal(pid: number, signal: string): Promise<void> {
    await this.#client.call('process.signal', { pid, signal })
  }

  async writeStdin(
    pid: number,
    data: ByteSource,
    { close = true, signal }: { close?: boolean; signal?: AbortSignal } = {},
  ): Promise<number> {
    requireByteSource(data)
    const channel = await this.#client.open('process.stdin', { pid, close }, { signal })
    await channel.send(data)
    return checkCount(await this.#client.answer(channel, channel.result), 'bytes')
  }

  async resize(pid: number, size: { cols: number; rows: number }): Promise<void> {
    await this.#client.call('process.resize', { pid, ...size })
  }
}
