import { defaultContextOf, newRunId, type RunEvent, type RunResult } from '@dormouse/contracts'
import type { Follow, GuestRuns, RunInput, StartRun } from '@dormouse/engine'
import type { AgentClient } from './agent-client.ts'
import { AgentValue } from './agent-value.ts'
import { checkRunEvent } from './check-events.ts'
import { RunCollector } from './run-collector.ts'

export class AgentRuns implements GuestRuns {
  readonly #client: AgentClient

  constructor(client: AgentClient) {
    this.#client = client
  }

  async run(request: StartRun, options: { signal?: AbortSignal } = {}): Promise<RunResult> {
    const runId = request.runId ?? newRunId()
    const collector = new RunCollector(runId)
    for await (const event of this.stream({ ...request, runId }, options)) collector.add(event)
    return collector.result()
  }

  stream(request: StartRun, { signal }: { signal?: AbortSignal } = {}): AsyncIterable<RunEvent> {
    const { runId = newRunId(), context = defaultContextOf(request.language) } = request
    const fields = { ...request, runId, context }
    return this.#client.stream('run.start', fields, { check: checkRunEvent, signal })
  }

  events(runId: string, { signal, ...position }: Follow = {}): AsyncIterable<RunEvent> {
    return this.#client.stream('run.events', { runId, ...position }, { check: checkRunEvent, signal })
  }

  async interrupt(runId: string): Promise<'interrupting' | 'cancelled' | 'finished'> {
    const answer = new AgentValue(await this.#client.call('run.interrupt', { runId }), 'state of a run')
    return answer.oneOf('state', ['interrupting', 'cancelled', 'finished'])
  }

  async input(runId: string, answer: RunInput): Promise<void> {
    await this.#client.call('run.input', { runId, ...answer })
  }
}
