import type { Burrow, ContextVariables } from '@dormouse/engine'
import type { RecordedVariables } from '../store/variable-rows.ts'
import type { Sandbox } from './sandbox.ts'

/** Kernels answer within 2 s, or count as busy. A sleep waits no longer for what is only shown. */
const ANSWER_MS = 3_000
/** A record is written with the sleep. An honest one has a few KiB. */
const RECORD_MAX_CHARACTERS = 256 * 1024

/**
 * The variables of all contexts, to be recorded with the snapshot that is taken next. Of contexts in the middle of a run
 * it has what was recorded before. Never fails: without an answer it is the former record, if there is one. Pre: the
 * caller holds the lock alone.
 */
export async function collectVariables(
  { row, deps }: Sandbox,
  burrow: Burrow,
): Promise<RecordedVariables | undefined> {
  const former = deps.variables.find(row.head)
  try {
    const contexts = await burrow.guest.variables.list({ timeoutMs: ANSWER_MS })
    if (contexts.length === 0) return undefined
    const known = contexts.map((one) => (one.state === 'idle' ? one : beforeRun(one, former)))
    return { recordedAt: deps.clock.wallMs(), contexts: bounded(known) }
  } catch {
    // An agent of an older version, or one that does not answer.
    return former
  }
}

function beforeRun(busy: ContextVariables, former: RecordedVariables | undefined): ContextVariables {
  const before = former?.contexts.find(({ context }) => context === busy.context)
  return before === undefined ? busy : { ...before, state: 'busy' }
}

/** Leaves out what does not fit. The agent may lie about everything but the length of each field. */
function bounded(contexts: readonly ContextVariables[]): ContextVariables[] {
  let room = RECORD_MAX_CHARACTERS
  return contexts.map((context) => {
    const variables = context.variables.filter((variable) => {
      room -= JSON.stringify(variable).length
      return room >= 0
    })
    return { ...context, variables, more: context.more || variables.length < context.variables.length }
  })
}
