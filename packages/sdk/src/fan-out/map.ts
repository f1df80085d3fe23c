import { cancelled, DormouseError } from '../error.ts'
import type { Abortable } from '../options.ts'
import type { RunStreamOptions } from '../runs/run-options.ts'
import type { RunResult } from '../runs/run-result.ts'
import type { Sandbox } from '../sandbox.ts'
import { forEachConcurrently } from './for-each-concurrently.ts'
import { Forks } from './forks.ts'
import { runOrThrow } from './run-or-throw.ts'

/** Python code that finds its input in a variable, or a function of a fork and the input. */
export type MapWork<Input, Value> =
  | string
  | ((child: Sandbox, input: Input, index: number, signal: AbortSignal | undefined) => Promise<Value>)

export interface MapOptions extends Abortable, Pick<RunStreamOptions, 'context' | 'timeoutMs'> {
  /** How many forks exist at once. Default: 4. */
  readonly concurrency?: number
  /** The variable in which code finds its input, which must be JSON. Default: `item`. */
  readonly variable?: string
}

/** The outcome of one input. For code, `value` is the run, and an exception is an `error` with code `run_failed`. */
export type MapOutcome<Input, Value = RunResult> = { readonly index: number; readonly input: Input } & (
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly error: Error }
)

const CONCURRENCY = 4

export async function mapOverForks<Input, Value>(
  parent: Sandbox,
  inputs: Iterable<Input>,
  work: MapWork<Input, Value>,
  options: MapOptions,
): Promise<MapOutcome<Input, Value>[]> {
  const { concurrency = CONCURRENCY, signal } = options
  const all = [...inputs]
  const perform = typeof work === 'function' ? work : runWithInput<Input, Value>(work, options)
  const forks = new Forks(parent, signal)
  const outcomes: MapOutcome<Input, Value>[] = []
  await forEachConcurrently(all, concurrency, async (input, index) => {
    try {
      const value = await forks.use((child) => perform(child, input, index, signal))
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

function runWithInput<Input, Value>(code: string, { variable = 'item', context, timeoutMs }: MapOptions) {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(variable))
    throw new DormouseError(
      'invalid_argument',
      `variable: ${JSON.stringify(variable)} is not a Python identifier`,
    )
  return async (child: Sandbox, input: Input, _index: number, signal: AbortSignal | undefined) => {
    // JSON text, encoded as JSON again, is a Python string literal.
    const text = JSON.stringify(JSON.stringify(input ?? null))
    await runOrThrow(child, `${variable} = __import__('json').loads(${text})`, { context, signal })
    return (await runOrThrow(child, code, { context, timeoutMs, signal })) as Value
  }
}
