import { DormouseError, newRunId, type RunEvent, type RunId, type RunResult } from '@dormouse/contracts'
import type { Follow, GuestRuns, RunInfo, StartRun } from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { AgentValue } from './agent-value.ts'
import { RunCollector } from './collect-run.ts'
import { checkRunEvent } from './event-check.ts'
import { checkList, checkRunInfo } from './info-check.ts'

export class AgentRuns implements GuestRuns {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async run(request: StartRun, { signal }: { signal?: AbortSignal } = {}): Promise<RunResult> {
    const fields = withRunId(request)
    const collector = new RunCollector(fields.runId)
    let wrong: unknown
    const onItem = (item: unknown) => {
      try {
        collector.add(checkRunEvent(item))
      } catch (error) {
        wrong ??= error
      }
    }
    await this.#client.call('run.start', fields, { signal, onItem, timeoutMs: Number.POSITIVE_INFINITY })
    if (wrong !== undefined) {
      throw new DormouseError('agent_unreachable', 'The agent sent a malformed event.', { cause: wrong })
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
    const answer = new AgentValue(await this.#client.call('run.interrupt', { runId }), 'state of a run')
    return answer.oneOf('state', ['interrupting', 'cancelled', 'finished'])
  }

  async list(): Promise<readonly RunInfo[]> {
    return checkList(await this.#client.call('run.list', {}), 'runs', checkRunInfo)
  }
}

function withRunId(request: StartRun): StartRun & { runId: RunId } {
  return { ...request, runId: request.runId ?? newRunId() }
}
