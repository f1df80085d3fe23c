import { DormouseError } from '../error.ts'
import type { RunResult } from '../runs/run-result.ts'
import type { Sandbox } from '../sandbox.ts'

/** Code to run in a child, or a function of the child. */
export type Candidate<Value = RunResult> =
  | string
  | ((child: Sandbox, index: number, signal: AbortSignal | undefined) => Promise<Value>)

/** For n children: one candidate for all, a list that is repeated, or a function of the index. */
export type Candidates<Value = RunResult> =
  | string
  | readonly Candidate<Value>[]
  | ((index: number) => Candidate<Value>)

/** Returns one candidate per child. */
export function candidatesFor<Value>(n: number, given: Candidates<Value>): readonly Candidate<Value>[] {
  if (!Number.isInteger(n) || n < 1) throw refused(`n: must be a whole number from 1 (saw ${n})`)
  const each = typeof given === 'function' ? given : repeated(n, typeof given === 'string' ? [given] : given)
  return Array.from({ length: n }, (_, index) => {
    const candidate = each(index)
    if (typeof candidate === 'string' || typeof candidate === 'function') return candidate
    throw refused(`candidates: must be code, or functions of a child (saw ${JSON.stringify(candidate)})`)
  })
}

function repeated<Value>(n: number, list: readonly Candidate<Value>[]): (index: number) => Candidate<Value> {
  requireSome(list)
  // A candidate without a child could have been the best.
  if (list.length > n)
    throw refused(
      `candidates: ${list.length} candidates for ${n} ${n === 1 ? 'child' : 'children'}`,
      'Make n at least the number of candidates, or leave it out; `concurrency` limits how many children exist at once.',
    )
  return (index) => list[index % list.length] as Candidate<Value>
}

export function requireSome(list: readonly unknown[]): void {
  if (list.length === 0) throw refused('candidates: must not be empty')
}

function refused(message: string, hint?: string): DormouseError {
  return new DormouseError('invalid_argument', message, { hint })
}
