import { DormouseError } from '../error.ts'
import type { RunEvent } from './run-event.ts'
import type { RunOptions } from './run-options.ts'
import type { Runs } from './runs.ts'

/** Passes the events on, and answers those that ask for input. */
export async function* answerRun(
  events: AsyncIterable<RunEvent>,
  runs: Runs,
  onInput: NonNullable<RunOptions['onInput']>,
): AsyncGenerator<RunEvent, void, undefined> {
  let runId = ''
  for await (const event of events) {
    if (event.type === 'start') runId = event.runId
    yield event
    if (event.type === 'input') await answer(event, { runId, runs, onInput })
  }
}

interface Asked {
  readonly runId: string
  readonly runs: Runs
  readonly onInput: NonNullable<RunOptions['onInput']>
}

async function answer(
  { seq, prompt, hidden = false }: RunEvent & { type: 'input' },
  { runId, runs, onInput }: Asked,
): Promise<void> {
  try {
    const text = await onInput({ prompt, hidden })
    await runs.answer(runId, { seq, text })
  } catch (error) {
    // The run was interrupted, or another program answered.
    if (error instanceof DormouseError && error.code === 'conflict') return
    // Without an answer the run would wait.
    await runs.interrupt(runId).catch(() => {})
    throw error
  }
}
