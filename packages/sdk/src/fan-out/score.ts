import { RunFailedError } from '../error.ts'
import type { Sandbox } from '../sandbox.ts'
import type { RaceOptions } from './race.ts'
import { runOrThrow } from './run-or-throw.ts'

/** Throws `run_failed` if the score is not a number. */
export async function scoreOf<Value>(
  child: Sandbox,
  value: Value,
  index: number,
  { score, context, timeoutMs, signal }: RaceOptions<Value>,
): Promise<number> {
  const found =
    typeof score === 'function'
      ? await score(value, child, index)
      : pythonNumber(await runOrThrow(child, `float((\n${score}\n))`, { context, timeoutMs, signal }))
  if (!Number.isNaN(found)) return found
  throw new RunFailedError('run_failed', 'The score is not a number', {
    hint: 'NaN cannot be compared. Return another number.',
  })
}

function pythonNumber({ text = '' }: { text?: string }): number {
  const infinite = /^(-?)inf$/.exec(text)
  if (infinite !== null) return infinite[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  return text === '' ? Number.NaN : Number(text)
}
