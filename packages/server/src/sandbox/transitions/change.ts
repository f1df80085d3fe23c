import type { NewLedgerEntry } from '../../store/ledger-rows.ts'
import type { SandboxLimits, SandboxPolicy } from '../../store/sandbox-rows.ts'
import type { SandboxBody } from '../sandbox-body.ts'
import { limitsOfProcesses } from './wake.ts'

/**
 * Changes what holds for a sandbox: all of it, or nothing. Pre: an exclusive turn, and whatever can be refused at once was not.
 * The row is written last: until then its old name is nobody else's, and a server that dies leaves it as it was. The next one makes the limits
 * follow the row, which is what the intent is for; the network it makes anew in any case.
 */
export async function change(
  body: SandboxBody,
  change: Partial<SandboxPolicy> & { limits?: SandboxLimits },
  entry: NewLedgerEntry,
): Promise<void> {
  const { row, burrow, parts } = body
  const isReach = change.network !== undefined || change.secrets !== undefined
  const limited = change.limits === undefined ? undefined : burrow
  if (limited !== undefined) body.write({ intent: 'change', isQuick: true })
  const undo: (() => Promise<void>)[] = []
  const aim = { ...row, ...change }
  body.aimAt(aim)
  try {
    if (isReach) {
      undo.push(() => restoreNetwork(body))
      await parts.network.change(body)
    }
    if (limited !== undefined) {
      await limited.setLimits(limitsOfProcesses(aim.limits))
      undo.push(() => limited.setLimits(limitsOfProcesses(row.limits)))
    }
    // Another may have taken the name by now.
    body.write({ change, entry, ...(limited !== undefined && { intent: null }) })
  } catch (error) {
    body.aimAt(undefined)
    const isBack = await takeBack(body, undo)
    if (limited !== undefined && isBack) await takeBack(body, [async () => body.write({ intent: null })])
    throw error
  } finally {
    body.aimAt(undefined)
  }
}

/** Answers whether all is as before. If not, the intent stays, so that the next start tries again. */
async function takeBack(
  { id, parts }: SandboxBody,
  undo: readonly (() => Promise<void>)[],
): Promise<boolean> {
  const results = await Promise.allSettled(undo.map((one) => one()))
  const failures = results.filter((result) => result.status === 'rejected')
  for (const { reason } of failures)
    parts.log.error({ sandboxId: id, err: reason }, 'a change that failed was not taken back whole')
  return failures.length === 0
}

/** A way out that cannot follow the row is closed: too little is better than too much. */
async function restoreNetwork(body: SandboxBody): Promise<void> {
  const { network, log } = body.parts
  await network.change(body).catch((error: unknown) => {
    log.error(
      { sandboxId: body.id, err: error },
      'the network of a sandbox is closed: its policy cannot be applied',
    )
    network.shut(body.id)
  })
}
