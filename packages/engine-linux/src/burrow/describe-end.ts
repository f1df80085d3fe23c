import type { BurrowEnd } from '@dormouse/engine'

/** One sentence for people: why the burrow ended by itself. */
export function describeEnd(end: BurrowEnd): string {
  if (end.reason !== 'agent_ended') return 'The burrow was killed from outside.'
  const how =
    end.signal === undefined ? `exited with code ${end.exitCode}` : `was killed by signal ${end.signal}`
  return `The agent of the burrow ${how}.`
}
