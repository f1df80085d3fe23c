import { DormouseError } from '../error.ts'
import type { RunResult } from '../runs/run-options.ts'
import type { Sandbox } from '../sandbox.ts'

/** Code to run in a child, or a function that does what it likes with one. */
export type Candidate<Value = RunResult> =
  | string
  | ((child: Sandbox, index: number, signal: AbortSignal | undefined) => Promise<Value>)

/** For n children: one for all of them, a list whose members take turns when it is shorter than n, or a function that makes each. */
export type Candidates<Value = RunResult> =
  | string
  | readonly Candidate<Value>[]
  | ((index: number) => Candidate<Value>)

/** One for each of n children. */
export function candidatesFor<Value>(n: number, given: Candidates<Value>): readonly Candidate<Value>[] {
  if (!Number.isInteger(n) || n < 1) throw refused(`n: must be a whole number from 1 (saw ${n})`)
  const each = typeof given === 'function' ? given : inTurn(n, typeof given === 'string' ? [given] : given)
  return Array.from({ length: n }, (_, index) => {
    const candidate = each(index)
    if (typeof candidate === 'string' || typeof candidate === 'function') return candidate
    throw refused(`candidates: must be code, or functions of a child (saw ${JSON.stringify(candidate)})`)
  })
}

function inTurn<Value>(n: number, list: readonly Candidate<Value>[]): (index: number) => Candidate<Value> {
  requireSome(list)
  // Who is left out could have been the best.
  if (list.length > n)
    throw refused(
      `candidates: ${list.length} candidates for ${n} ${n === 1 ? 'child' : 'children'}`,
      'Give as many children as candidates, or leave the number out; `concurrency` says how many there are at a time.',
    )
  return (index) => list[index % list.length] as Candidate<Value>
}

export function requireSome(list: readonly unknown[]): void {
  if (list.length === 0) throw refused('candidates: there are none')
}

function refused(message: string, hint?: string): DormouseError {
  return new DormouseError('invalid_argument', message, { hint })
}
