import type { SandboxAnswer } from '@dormouse/contracts/http'
import type { Sandbox } from '../sandbox.ts'
import { type Fork, fork } from './fork.ts'
import { forkAsleep } from './fork-asleep.ts'

/** Forks a sandbox where room is: here, or on other hosts of the cluster, where the children wake with the next call. */
export async function forkPlaced(sandbox: Sandbox, request: Fork): Promise<readonly SandboxAnswer[]> {
  const { spread } = sandbox.deps
  if (spread?.isWanted(sandbox) === true) {
    const children = await sandbox.exclusive(() => forkAsleep(sandbox, request), request.signal)
    const views = children.map((child) => child.view())
    await spread.place(children)
    return views
  }
  // The parent is free before its children run.
  const { children } = await sandbox.exclusive(() => fork(sandbox, request), request.signal)
  return (await children).map((child) => child.view())
}
