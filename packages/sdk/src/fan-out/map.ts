import { cancelled, DormouseError } from '../error.ts'
import type { Abortable } from '../options.ts'
import type { RunResult, RunStreamOptions } from '../runs/run-options.ts'
import type { Sandbox } from '../sandbox.ts'
import { Forks } from './forks.ts'
import { runOrThrow } from './run-or-throw.ts'
import { eachAtOnce } from './workers.ts'

/** Python code that finds its input in a variable, or a function that does what it likes with a fork. */
export type MapWork<Input, Value> =
  | string
  | ((child: Sandbox, input: Input, index: number, signal: AbortSignal | undefined) => Promise<Value>)

export interface MapOptions extends Abortable, Pick<RunStreamOptions, 'context' | 'timeoutMs'> {
  /** How many forks there are at the same time at most; 4 if not given. */
  readonly concurrency?: number
  /** The variable in which code finds its input, given as JSON; `item` if not given. */
  readonly variable?: string
}

/** What became of one input. With code as the work, `value` is the run, and code that raised is an `error` with code `run_failed`. */
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
  await eachAtOnce(all, concurrency, async (input, index) => {
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
  // Not before every child is gone.
  if (signal?.aborted) throw cancelled(signal)
  return outcomes
}

function runWithInput<Input, Value>(code: string, { variable = 'item', context, timeoutMs }: MapOptions) {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(variable))
    throw new DormouseError(
      'invalid_argument',
      `variable: ${JSON.stringify(variable)} is not a name of Python`,
    )
  return async (child: Sandbox, input: Input, _index: number, signal: AbortSignal | undefined) => {
    // A JSON text is a Python string as well when it is written as JSON once more.
    const text = JSON.stringify(JSON.stringify(input ?? null))
    await runOrThrow(child, `${variable} = __import__('json').loads(${text})`, { context, signal })
    return (await runOrThrow(child, code, { context, timeoutMs, signal })) as Value
  }
}
