import type { ProcessEvent } from '@dormouse/contracts'
import type {
  BackgroundProcess,
  ByteSource,
  ConnectProcess,
  Follow,
  GuestProcesses,
  ProcessConnection,
  ProcessInfo,
  ReconnectedProcess,
  StartProcess,
} from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { requireByteSource } from './channel.ts'
import {
  checkBackgroundProcesses,
  checkCount,
  checkList,
  checkProcessId,
  checkProcessInfo,
} from './check-answers.ts'
import { checkProcessEvent } from './check-events.ts'
import { AgentProcessConnection } from './process-connection.ts'

export class AgentProcesses implements GuestProcesses {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async start(request: StartProcess): Promise<string> {
    return checkProcessId(await this.#client.call('process.start', { ...request, follow: false }))
  }

  stream(request: StartProcess, { signal }: { signal?: AbortSignal } = {}): AsyncIterable<ProcessEvent> {
    return this.#client.stream('process.start', request, { check: checkProcessEvent, signal })
  }

  events(process: string, { signal, ...position }: Follow = {}): AsyncIterable<ProcessEvent> {
    return this.#client.stream(
      'process.events',
      { process, ...position },
      { check: checkProcessEvent, signal },
    )
  }

  async connect(
    request: ConnectProcess,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<ProcessConnection> {
    const channel = await this.#client.open('process.connect', request, { signal })
    return this.#client.answer(channel, AgentProcessConnection.open(channel))
  }

  async reconnect(
    process: string,
    { receivedBytes, signal }: { receivedBytes: number; signal?: AbortSignal },
  ): Promise<ReconnectedProcess> {
    const channel = await this.#client.open('process.reconnect', { process, receivedBytes }, { signal })
    return this.#client.answer(channel, AgentProcessConnection.reopen(channel, process))
  }

  async list(): Promise<readonly ProcessInfo[]> {
    return checkList(await this.#client.call('process.list', {}), 'processes', checkProcessInfo)
  }

  background({ signal }: { signal?: AbortSignal } = {}): AsyncIterable<readonly BackgroundProcess[]> {
    return this.#client.stream('background.watch', {}, { check: checkBackgroundProcesses, signal })
  }

  async signal(process: string, signal: string): Promise<void> {
    await this.#client.call('process.signal', { process, signal })
  }

  async writeStdin(
    process: string,
    data: ByteSource,
    { close = true, signal }: { close?: boolean; signal?: AbortSignal } = {},
  ): Promise<number> {
    requireByteSource(data)
    const channel = await this.#client.open('process.stdin', { process, close }, { signal })
    await channel.send(data)
    return checkCount(await this.#client.answer(channel, channel.result), 'bytes')
  }

  async resize(process: string, size: { cols: number; rows: number }): Promise<void> {
    await this.#client.call('process.resize', { process, ...size })
  }
}
