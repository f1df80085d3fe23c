import type { SandboxAnswer } from '@dormouse/contracts/http'
import type { Sandbox } from '../sandbox.ts'
import { type Fork, fork } from './fork.ts'
import { forkAsleep } from './fork-asleep.ts'

/** Forks a sandbox where room is: here, or on other hosts of the cluster, where the children wake with the next call. */
export async function forkPlaced(sandbox: Sandbox, request: Fork): Promise<readonly SandboxAnswer[]> {
  const { spread } = sandbox.deps
  const isSpread = spread?.isWanted(sandbox) === true
  const make = isSpread ? forkAsleep : fork
  const children = await sandbox.exclusive(() => make(sandbox, request), request.signal)
  const views = children.map((child) => child.view())
  if (isSpread) await spread.place(children)
  return views
}
