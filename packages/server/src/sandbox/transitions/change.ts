import type { NewLedgerEntry } from '../../store/ledger-rows.ts'
import type { SandboxLimits, SandboxPolicy, VolumeMount } from '../../store/sandbox-rows.ts'
import { requireIsolation } from '../require-isolation.ts'
import type { Sandbox } from '../sandbox.ts'
import { nameTaken } from '../sandbox-errors.ts'
import { showDisk } from '../show-disk.ts'
import { remount } from './remount.ts'
import { processLimits } from './restore-options.ts'

/** Of a ledger entry: a list of hosts can be long. */
const DETAIL_MAX_CHARACTERS = 1_000

/** Of `limits` and `connections`, absent fields stay. */
export type PolicyChange = Partial<Omit<SandboxPolicy, 'connections'>> & {
  readonly limits?: Partial<SandboxLimits>
  readonly connections?: Partial<SandboxPolicy['connections']>
  /** Replaces all of them. */
  readonly volumes?: readonly VolumeMount[]
}

/** Checks a change that a caller asks for, then makes it. Pre: the caller holds the lock alone. */
export async function update(
  sandbox: Sandbox,
  { limits, connections, volumes, ...others }: PolicyChange,
): Promise<void> {
  const { row, deps } = sandbox
  const policy: Partial<SandboxPolicy> = {
    ...others,
    ...(connections && { connections: { ...row.connections, ...connections } }),
  }
  const allLimits = limits && { ...row.limits, ...limits }
  if (limits !== undefined) deps.quotas.checkCeilings(row.owner, raised(limits, row.limits))
  // A sleeping sandbox is checked when it wakes.
  if (allLimits !== undefined && row.state === 'running')
    deps.quotas.requireMemory(row, allLimits.memoryBytes - row.limits.memoryBytes)
  requireIsolation(deps, row.isolation, policy)
  if (allLimits !== undefined && sandbox.burrow === undefined && row.head !== undefined)
    await deps.engine.checkLimits?.(row.head, processLimits({ ...row, limits: allLimits }))
  if (policy.secrets !== undefined) deps.secrets.require(policy.secrets, row)
  if (policy.network !== undefined) deps.network.check(policy.network)
  if (policy.name !== undefined) requireFreeName(sandbox, policy.name)
  await withName(sandbox, policy.name, async () => {
    if (volumes !== undefined) await remount(sandbox, volumes)
    if (limits === undefined && Object.keys(policy).length === 0) return
    const detail = describeChange(policy, limits !== undefined)
    const entry = { event: 'changed', cause: 'asked', detail } as const
    await change(sandbox, { ...policy, ...(allLimits && { limits: allLimits }) }, entry)
    sandbox.work.touch()
  })
  // What is acknowledged outlives the host.
  await deps.ownership?.published(row.id)
}

/** Takes a new name on all hosts while `work` gives it to the sandbox. On failure others can have it. */
async function withName(
  { row, deps: { ownership, log } }: Sandbox,
  name: string | undefined,
  work: () => Promise<void>,
): Promise<void> {
  if (name === undefined || name === row.name) return await work()
  await ownership?.claimName(row, name)
  try {
    await work()
  } catch (error) {
    await ownership?.returnName(row, name).catch((err: unknown) => {
      log.warn({ sandboxId: row.id, err }, 'a name that a sandbox did not get is not free again yet')
    })
    throw error
  }
}

/**
 * Puts a change in force, then writes it: all of it or nothing. The row is written last, so that the old name stays
 * taken until then, and a server that dies leaves the row as it was. The intent then tells recovery to set the limits
 * of the row again; the network is opened anew in any case.
 */
async function change(
  sandbox: Sandbox,
  fields: Partial<SandboxPolicy> & { limits?: SandboxLimits },
  entry: NewLedgerEntry,
): Promise<void> {
  const { row, deps } = sandbox
  const changesNetwork = fields.network !== undefined || fields.secrets !== undefined
  const changesLimits = fields.limits !== undefined || fields.atMemoryLimit !== undefined
  const limited = changesLimits ? sandbox.burrow : undefined
  if (limited !== undefined) sandbox.write({ intent: 'change', withoutSync: true })
  const undo: (() => Promise<void>)[] = []
  const effective = { ...row, ...fields }
  sandbox.effectiveRow = effective
  try {
    if (changesNetwork) {
      undo.push(() => restoreNetwork(sandbox))
      await deps.network.change(sandbox)
    }
    if (limited !== undefined) {
      await limited.setLimits(processLimits(effective))
      undo.push(() => limited.setLimits(processLimits(row)))
    }
    // Throws when another sandbox has taken the name meanwhile.
    sandbox.write({ fields, entry, ...(limited !== undefined && { intent: null }) })
    if (limited !== undefined) showDisk(limited, effective.limits)
  } catch (error) {
    sandbox.effectiveRow = undefined
    const isUndone = await undoAll(sandbox, undo)
    if (limited !== undefined && isUndone)
      await undoAll(sandbox, [async () => sandbox.write({ intent: null })])
    throw error
  } finally {
    sandbox.effectiveRow = undefined
  }
}

/** Returns whether all is as before. If not, the intent stays, so that the next start tries again. */
async function undoAll({ id, deps }: Sandbox, steps: readonly (() => Promise<void>)[]): Promise<boolean> {
  const results = await Promise.allSettled(steps.map((step) => step()))
  const failures = results.filter((result) => result.status === 'rejected')
  for (const { reason } of failures)
    deps.log.error({ sandboxId: id, err: reason }, 'a failed change of a sandbox is only partly undone')
  return failures.length === 0
}

/** Closes the gate when the old policy cannot be applied again: too little network is better than too much. */
async function restoreNetwork(sandbox: Sandbox): Promise<void> {
  const { network, log } = sandbox.deps
  await network.change(sandbox).catch((error: unknown) => {
    log.error(
      { sandboxId: sandbox.id, err: error },
      'the network of a sandbox is closed: its policy cannot be applied',
    )
    network.shut(sandbox.id)
  })
}

function requireFreeName({ id, row, deps }: Sandbox, name: string): void {
  const named = deps.sandboxes.findNamed(name, row.owner)
  if (named !== undefined && named.id !== id) throw nameTaken(name)
}

/** The limits that grow. A sandbox may keep a limit that is above today's ceiling. */
function raised(limits: Partial<SandboxLimits>, before: SandboxLimits): Partial<SandboxLimits> {
  const grown = Object.entries(limits).filter(([name, value]) => value > before[name as keyof SandboxLimits])
  return Object.fromEntries(grown)
}

/** Names the changed fields; of the network also the new policy. */
function describeChange({ network, ...policy }: Partial<SandboxPolicy>, hasLimits: boolean): string {
  const reach =
    network === undefined
      ? []
      : [
          `network: ${[network.mode, ...network.allow, ...(network.deny ?? []).map((rule) => `not ${rule}`)].join(' ')}`,
        ]
  const text = [...Object.keys(policy), ...(hasLimits ? ['limits'] : []), ...reach].join(', ')
  return text.length <= DETAIL_MAX_CHARACTERS ? text : `${text.slice(0, DETAIL_MAX_CHARACTERS - 1)}…`
}
