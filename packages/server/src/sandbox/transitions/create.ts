import {
  DormouseError,
  type Isolation,
  newSandboxId,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import type { Caller } from '../../access/caller.ts'
import type { CreateSandbox, SandboxOrigin, SandboxRow } from '../../store/sandbox-rows.ts'
import type { SnapshotRow } from '../../store/snapshot-rows.ts'
import { endBurrow } from '../end-burrow.ts'
import { noSuchSnapshot } from '../find-snapshot.ts'
import { requireIsolation } from '../require-isolation.ts'
import { Sandbox } from '../sandbox.ts'
import type { SandboxDependencies } from '../sandbox-dependencies.ts'
import { nameTaken } from '../sandbox-errors.ts'
import { beginRow } from './begin-row.ts'
import { burrowFromTemplate, type FromTemplate } from './burrow-from-template.ts'

export interface CreateOptions {
  readonly signal?: AbortSignal | undefined
  readonly origin?: SandboxOrigin | undefined
}

/**
 * Post: the sandbox runs and is on record. A refusal leaves nothing behind. `isNew` is false when `getOrCreate` found
 * one.
 */
export async function create(
  deps: SandboxDependencies,
  request: CreateSandbox,
  caller: Caller,
  { signal, origin }: CreateOptions = {},
): Promise<{ sandbox: Sandbox; isNew: boolean }> {
  if (request.snapshotId !== undefined) await deps.elsewhere?.bring(request.snapshotId)
  // Nothing may wait between the look for the name and the moment when it is taken.
  const ofTemplate = await templateIsolation(deps, request, caller.keyId)
  const existing =
    request.name === undefined ? undefined : deps.sandboxes.findNamed(request.name, caller.keyId)
  if (existing !== undefined) {
    if (request.getOrCreate !== true) throw nameTaken(request.name)
    await untilCreated(existing, signal)
    if (existing.isDeleted) return create(deps, request, caller, { signal })
    return { sandbox: existing, isNew: false }
  }
  const volumes = checkRequest(deps, request, caller)
  deps.quotas.requireNew(caller.keyId, request.limits.memoryBytes)
  const snapshot = request.snapshotId && requireSnapshot(deps, request.snapshotId, caller.keyId)
  const isolation = chooseIsolation(deps, { ...request, ofTemplate }, snapshot?.id ?? origin?.from)
  requireIsolation(deps, isolation, { ...request, volumes })
  const asked = { ...request, volumes, isolation }
  const row = newRow(asked, caller, { now: deps.clock.wallMs(), id: origin?.id, snapshot })
  const sandbox = new Sandbox(deps, row)
  // Added before it exists: a second request for the same name then waits for this one.
  deps.sandboxes.add(sandbox)
  try {
    if (deps.ownership !== undefined) {
      await deps.ownership.claim(row)
      deps.quotas.requireStill(row)
    }
    await sandbox.lock.write(() =>
      start(sandbox, { signal, from: snapshot?.id ?? origin?.from, image: origin?.image }),
    )
  } catch (error) {
    // Its name stays taken as long as its row is there.
    if (sandbox.pendingWrites.isEmpty) deps.sandboxes.remove(sandbox)
    await deps.ownership?.release(row).catch((err: unknown) => {
      deps.log.warn({ sandboxId: row.id, err }, 'the directory still has a sandbox that was not created')
    })
    throw error
  }
  return { sandbox, isNew: true }
}

/** Throws when something that the request names is not there, or more than the caller may have. Returns its volumes. */
export function checkRequest(
  { quotas, volumes, network, secrets }: SandboxDependencies,
  request: CreateSandbox,
  caller: Caller,
): SandboxRow['volumes'] {
  quotas.checkCeilings(caller.keyId, request.limits)
  const resolved = volumes.resolve(request.volumes, caller)
  network.check(request.network)
  secrets.require(request.secrets, { owner: caller.keyId, env: request.env })
  return resolved
}

/** A snapshot decides it: memory of a virtual machine runs in no other engine. */
function chooseIsolation(
  { engine, defaultIsolation, forbidsProcesses }: SandboxDependencies,
  { isolation, ofTemplate }: Pick<CreateSandbox, 'isolation'> & { ofTemplate: Isolation | undefined },
  from: SnapshotId | undefined,
): Isolation {
  const ofSnapshot = from && (engine.isolationOf(from) ?? 'process')
  if (ofSnapshot !== undefined && isolation !== undefined && ofSnapshot !== isolation)
    throw new DormouseError(
      'invalid_argument',
      `isolation: the snapshot was taken with isolation "${ofSnapshot}" (saw "${isolation}")`,
      { details: { field: 'isolation' } },
    )
  const chosen = ofSnapshot ?? isolation ?? ofTemplate ?? defaultIsolation
  if (chosen === 'process' && forbidsProcesses)
    throw new DormouseError(
      'isolation_forbidden',
      'This server starts no sandbox that shares the kernel of its host.',
      { details: { field: 'isolation' } },
    )
  return chosen
}

async function templateIsolation(
  { engine, templates }: SandboxDependencies,
  { isolation, template }: CreateSandbox,
  owner: string,
): Promise<Isolation | undefined> {
  if (isolation !== undefined) return undefined
  const isBuilt = templates.snapshotsOf(template, owner) !== undefined
  return isBuilt ? templates.isolationOf(template, owner) : engine.isolationOfTemplate(template)
}

/** The creation may fail meanwhile, and the server may not have been able to record that. */
async function untilCreated(sandbox: Sandbox, signal: AbortSignal | undefined): Promise<void> {
  if (sandbox.row.state === 'creating') (await sandbox.lock.read(signal)).release()
  if (sandbox.row.state === 'creating') await sandbox.settle()
}

async function start(sandbox: Sandbox, how: FromTemplate): Promise<void> {
  const { deps, row } = sandbox
  const began = performance.now()
  await deps.starts.requireDisk()
  // After a power cut before the outcome, only files without a row are left, and recovery removes those.
  sandbox.write({
    intent: 'create',
    withoutSync: true,
    // From here on the snapshot is a head, and cannot be deleted.
    ...(row.head !== undefined && {
      fields: { head: row.head, headOf: row.headOf },
      inTransaction: () => requireSnapshot(deps, row.head, row.owner),
    }),
  })
  try {
    const burrow = await deps.starts.run(row.owner, () => burrowFromTemplate(deps, row, how), how.signal)
    sandbox.enterBurrow({ burrow, isContinued: false })
    sandbox.work.touch()
    sandbox.move('running', {
      intent: null,
      // After a power cut it is removed, whatever the row says.
      withoutSync: row.ephemeral,
      entry: {
        event: 'created',
        cause: row.head === undefined ? 'asked' : `snapshot ${row.head}`,
        latencyMs: performance.now() - began,
      },
      ...(row.forkedFrom !== undefined && {
        inTransaction: () => deps.lineage.put(row.id, row.forkedFrom as SandboxId),
      }),
    })
  } catch (error) {
    await endBurrow(deps, sandbox.burrow)
    sandbox.leaveBurrow()
    await sandbox
      .recordOutcome(() => undo(sandbox))
      .catch((cause: unknown) => {
        deps.log.warn({ sandboxId: sandbox.id, err: cause }, 'a failed creation is not undone yet')
      })
    throw error
  }
}

function undo(sandbox: Sandbox): void {
  const { id, deps } = sandbox
  if (!sandbox.isDeleted) sandbox.move('deleting')
  deps.rows.delete(id)
  deps.network.forget(id)
  sandbox.dropSnapshotLater(sandbox.row.head)
}

function requireSnapshot(
  { snapshots }: SandboxDependencies,
  id: SnapshotId | undefined,
  owner: string,
): SnapshotRow {
  const snapshot = id && snapshots.get(id)
  if (snapshot === undefined || snapshot.owner !== owner) throw noSuchSnapshot(id ?? '')
  return snapshot
}

/** A sandbox that starts from a snapshot is a fork of the sandbox that the snapshot is of. */
function newRow(
  { getOrCreate: _, snapshotId: __, ...request }: CreateSandbox & Pick<SandboxRow, 'volumes' | 'isolation'>,
  caller: Caller,
  {
    now,
    id = newSandboxId(),
    snapshot,
  }: { now: number; id: SandboxId | undefined; snapshot: SnapshotRow | undefined },
): SandboxRow {
  return {
    ...request,
    template: snapshot?.template ?? request.template,
    id,
    owner: caller.keyId,
    head: snapshot?.id,
    headOf: snapshot?.sandboxId,
    forkedFrom: snapshot?.sandboxId,
    ...beginRow(now),
  }
}

export function serverIsEnding(): DormouseError {
  return new DormouseError('overloaded', 'The server is ending.', { details: { retryAfterMs: 5_000 } })
}
