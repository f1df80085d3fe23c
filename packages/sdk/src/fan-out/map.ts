import { checkCount } from '../check.ts'
import { cancelled, DormouseError, RunFailedError, RunTimeoutError } from '../error.ts'
import type { Task } from '../jobs.ts'
import type { Abortable } from '../options.ts'
import type { RunStreamOptions } from '../runs/run-options.ts'
import type { RunResult } from '../runs/run-result.ts'
import type { Sandbox } from '../sandbox.ts'
import { forEachConcurrently } from './for-each-concurrently.ts'
import { Forks } from './forks.ts'

/** Python code that finds its input in a variable, or a function of a fork and the input. */
export type MapWork<Input, Value> =
  | string
  | ((child: Sandbox, input: Input, index: number, signal: AbortSignal | undefined) => Promise<Value>)

export interface MapOptions extends Abortable, Pick<RunStreamOptions, 'context' | 'timeoutMs'> {
  /** How many forks exist at once. Default: 4. For code, the server may have a lower limit. */
  readonly concurrency?: number
  /** The variable in which code finds its input, which must be JSON. Default: `item`. */
  readonly variable?: string
  /** How often code that fails runs again. Default: never. */
  readonly retries?: number
}

/** The outcome of one input. For code, `value` is the run, and an exception is an `error` with code `run_failed`. */
export type MapOutcome<Input, Value = RunResult> = { readonly index: number; readonly input: Input } & (
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly error: Error }
)

const CONCURRENCY = 4
/** Runs in forks had no time-out before they were tasks of a job. */
const NO_TIMEOUT_MS = 24 * 3_600_000

export function mapOverForks<Input, Value>(
  parent: Sandbox,
  inputs: Iterable<Input>,
  work: MapWork<Input, Value>,
  options: MapOptions,
): Promise<MapOutcome<Input, Value>[]> {
  const all = [...inputs]
  return typeof work === 'function'
    ? callInForks(parent, all, work, options)
    : (runJob(parent, all, work, options) as Promise<MapOutcome<Input, Value>[]>)
}

/** Code runs as a job of the server. A function runs here, and drives a fork. */
async function runJob<Input>(
  { client, id: sandbox }: Sandbox,
  inputs: readonly Input[],
  code: string,
  { concurrency = CONCURRENCY, variable = 'item', context, timeoutMs, retries = 0, signal }: MapOptions,
): Promise<MapOutcome<Input>[]> {
  checkCount('concurrency', concurrency)
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(variable))
    throw new DormouseError(
      'invalid_argument',
      `variable: ${JSON.stringify(variable)} is not a Python identifier`,
    )
  if (inputs.length === 0) return []
  const { id } = await client.jobs.create(
    {
      ...{ code, sandbox, variable, concurrency, timeoutMs: timeoutMs ?? NO_TIMEOUT_MS, retry: { retries } },
      inputs: inputs.map((input) => (input ?? null) as never),
      ...(context !== undefined && { context }),
      idempotencyKey: `map-${globalThis.crypto.randomUUID()}`,
    },
    { signal },
  )
  const outcomes: MapOutcome<Input>[] = []
  try {
    for await (const event of client.jobs.events(id, { results: true, signal }))
      if (event.type === 'task')
        outcomes[event.task.index] = outcomeOf(event.task, inputs[event.task.index] as Input)
    await client.jobs.delete(id)
  } catch (error) {
    // Nothing of it is left running when the caller hears of the error.
    await client.jobs.cancel(id).catch(() => {})
    await client.jobs.wait(id).catch(() => {})
    throw signal?.aborted ? cancelled(signal) : error
  }
  return outcomes
}

function outcomeOf<Input>(
  { index, state, reason, message = '', result }: Task,
  input: Input,
): MapOutcome<Input> {
  if (state === 'succeeded' && result !== undefined) return { index, input, ok: true, value: result }
  try {
    result?.check()
  } catch (error) {
    return { index, input, ok: false, error: error as Error }
  }
  const options = { hint: 'The task did not come to its end.', details: { reason } }
  const error =
    reason === 'timed_out'
      ? new RunTimeoutError('run_timed_out', message, options)
      : new RunFailedError('run_failed', message, options)
  return { index, input, ok: false, error }
}

async function callInForks<Input, Value>(
  parent: Sandbox,
  inputs: readonly Input[],
  work: Exclude<MapWork<Input, Value>, string>,
  { concurrency = CONCURRENCY, signal }: MapOptions,
): Promise<MapOutcome<Input, Value>[]> {
  const forks = new Forks(parent, signal)
  const outcomes: MapOutcome<Input, Value>[] = []
  await forEachConcurrently(inputs, concurrency, async (input, index) => {
    try {
      const value = await forks.use((child) => work(child, input, index, signal))
      outcomes[index] = { index, input, ok: true, value }
    } catch (error) {
      outcomes[index] = {
        index,
        input,
        ok: false,
        error: error instanceof Error ? error : new Error(String(error)),
      }
    }
  })
  // After all children are deleted.
  if (signal?.aborted) throw cancelled(signal)
  return outcomes
}
