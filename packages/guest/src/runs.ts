import { DormouseError, newRunId, type RunEvent, type RunId, type RunResult } from '@dormouse/contracts'
import type { Follow, GuestRuns, RunInfo, StartRun } from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { RunCollector } from './collect-run.ts'
import { checkRunEvent } from './event-check.ts'

export class AgentRuns implements GuestRuns {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async run(request: StartRun, { signal }: { signal?: AbortSignal } = {}): Promise<RunResult> {
    const fields = withRunId(request)
    const collector = new RunCollector(fields.runId)
    let malformed: unknown
    const onItem = (item: unknown) => {
      try {
        collector.add(checkRunEvent(item))
      } catch (error) {
        malformed ??= error
      }
    }
    await this.#client.call('run.start', fields, { signal, onItem })
    if (malformed !== undefined) {
      throw new DormouseError('agent_unreachable', 'The agent sent a malformed event.', { cause: malformed })
    }
    return collector.result()
  }

  stream(request: StartRun, { signal }: { signal?: AbortSignal } = {}): AsyncIterable<RunEvent> {
    return this.#client.stream('run.start', withRunId(request), { check: checkRunEvent, signal })
  }

  async start(request: StartRun): Promise<RunId> {
    const fields = withRunId(request)
    await this.#client.call('run.start', { ...fields, follow: false })
    return fields.runId
  }

  events(runId: string, { signal, ...position }: Follow = {}): AsyncIterable<RunEvent> {
    return this.#client.stream('run.events', { runId, ...position }, { check: checkRunEvent, signal })
  }

  async interrupt(runId: string): Promise<'interrupting' | 'cancelled' | 'finished'> {
    const result = (await this.#client.call('run.interrupt', { runId })) as {
      state: 'interrupting' | 'cancelled' | 'finished'
    }
    return result.state
  }

  async list(): Promise<readonly RunInfo[]> {
    const result = (await this.#client.call('run.list', {})) as { runs: RunInfo[] }
    return result.runs
  }
}

function withRunId(request: StartRun): StartRun & { runId: RunId } {
  return { ...request, runId: request.runId ?? newRunId() }
}
