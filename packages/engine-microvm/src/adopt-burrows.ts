import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type BurrowId, isBurrowId, newSnapshotId } from '@dormouse/contracts'
import type { AdoptedBurrows, LostBurrow } from '@dormouse/engine'
import { BurrowCgroup, isAlive } from '@dormouse/engine-linux/for-engines'
import { findRecord, findSaveIntent, type MicrovmRecord } from './burrow/burrow-record.ts'
import type { LaunchedQemu } from './burrow/launched-qemu.ts'
import { MicrovmBurrow } from './burrow/microvm-burrow.ts'
import { removeBurrow } from './burrow/remove-burrow.ts'
import { GuestLink } from './link/guest-link.ts'
import type { MicrovmHost } from './microvm-host.ts'
import { connectSocket } from './qemu/connect-socket.ts'
import { QmpClient } from './qemu/qmp-client.ts'
import { writeSnapshot } from './snapshot/take-snapshot.ts'

/** One that waits for nothing answers at once, also on a busy host. */
const STATUS_MS = 3_000

/** Takes over machines that run, and removes those that do not. */
export async function adoptBurrows(
  host: MicrovmHost,
): Promise<Pick<AdoptedBurrows, 'lost'> & { burrows: MicrovmBurrow[] }> {
  const ids = (await readdir(host.layout.burrowsDir)).filter(isBurrowId)
  // At once: a guest that does not answer delays the start of the server, but not the others.
  const found = await Promise.all(ids.map((id) => adoptOrRemove(host, id)))
  const burrows = found.filter((each) => each instanceof MicrovmBurrow)
  const lost = found.flatMap((each) => (each === undefined || each instanceof MicrovmBurrow ? [] : [each]))
  for (const id of (await readdir(host.layout.sparesDir)).filter(isBurrowId))
    if (!existsSync(host.layout.burrow(id).dir)) await rm(host.layout.burrow(id).spareMark, { force: true })
  return { burrows, lost }
}

/** Undefined for a burrow that no sandbox had. */
async function adoptOrRemove(
  host: MicrovmHost,
  id: BurrowId,
): Promise<MicrovmBurrow | LostBurrow | undefined> {
  const paths = host.layout.burrow(id)
  const record = await findRecord(paths.record)
  if (record === undefined || record.state !== 'ready' || record.first === undefined) {
    await removeBurrow(host, paths, record?.first)
    return undefined
  }
  const intent = await findSaveIntent(paths.saving)
  if (intent !== undefined && existsSync(host.layout.snapshot(intent.snapshotId).manifest)) {
    await removeBurrow(host, paths, record.first)
    return { id, sandboxId: record.sandboxId, end: { reason: 'stored', snapshotId: intent.snapshotId } }
  }
  const adopted = await adopt(host, record, intent?.wasFrozen === false).catch((error: unknown) => {
    host.failures.report('adoption', error, { burrowId: id }, 'a virtual machine was not adopted')
    return undefined
  })
  const outcome = adopted ?? (await saveLost(host, record))
  await rm(paths.saving, { force: true })
  return outcome
}

/** Undefined when the machine has ended. `mustRun`: the last server stopped it for a snapshot that is not finished. */
async function adopt(
  host: MicrovmHost,
  record: MicrovmRecord,
  mustRun: boolean,
): Promise<MicrovmBurrow | undefined> {
  const { first } = record
  const paths = host.layout.burrow(record.id)
  if (first === undefined || !(await isAlive(first))) return undefined
  // Its QEMU may wait for a page. The server fetches that page, so its start must not wait for QEMU.
  const mayWait = record.parent !== undefined && host.arrivals.isArriving(record.parent)
  const control = await connectSocket(paths.qmp)
  const qmp = mayWait ? QmpClient.later(control) : await QmpClient.over(control)
  const link = GuestLink.over(await connectSocket(paths.link))
  const cgroup = new BurrowCgroup(host.hierarchies, paths.cgroup)
  const qemu: LaunchedQemu = { first, qmp, link, cgroup }
  const burrow = new MicrovmBurrow(host, paths, record, qemu)
  burrow.isFrozen = await (mayWait ? isStoppedSoon(host, burrow) : isStopped(burrow))
  if (burrow.isFrozen && mustRun) await burrow.thaw()
  burrow.guest.isHeld = burrow.isFrozen
  // A frozen guest answers when it runs again. One that runs may answer late, on a busy host or on purpose: its memory is
  // worth more than an answer in time.
  const isLate = burrow.isFrozen || mayWait
  const greeted = link.greet(isLate ? 2 ** 31 - 1 : undefined).catch((error: unknown) => {
    if (!burrow.isFrozen)
      host.failures.report('adoption', error, { burrowId: record.id }, 'an adopted virtual machine is silent')
  })
  if (!burrow.isFrozen) {
    if (!mayWait) await greeted
    burrow.connectVolumes()
  }
  return burrow
}

async function isStopped({ qmp }: MicrovmBurrow, timeoutMs?: number): Promise<boolean> {
  const { status } = (await qmp.execute('query-status', undefined, timeoutMs)) as { status?: string }
  return status !== 'running'
}

/**
 * A QEMU that does not answer waits for a page, so its guest runs, or is about to stop because the last server has
 * asked for it. Then it runs again.
 */
async function isStoppedSoon({ failures }: MicrovmHost, burrow: MicrovmBurrow): Promise<boolean> {
  const stopped = isStopped(burrow, Number.POSITIVE_INFINITY)
  let isDecided = false
  stopped
    .then(async (isNow) => {
      if (isDecided && isNow && !burrow.isFrozen) await burrow.thaw()
    })
    .catch((error: unknown) => {
      const fields = { sandboxId: burrow.sandboxId, burrowId: burrow.id }
      if (isDecided) failures.report('adoption', error, fields, 'a virtual machine that waits was not thawed')
    })
  const isFrozen = await Promise.race([stopped, sleep(STATUS_MS, false)])
  isDecided = true
  return isFrozen
}

/** The files of a machine that ended while no server watched. */
async function saveLost(host: MicrovmHost, record: MicrovmRecord): Promise<LostBurrow> {
  const { id, sandboxId, first } = record
  const paths = host.layout.burrow(id)
  const lost = { id, sandboxId, end: { reason: 'killed' } } as const
  try {
    const snapshotId = newSnapshotId()
    const target = host.layout.snapshot(snapshotId).dir
    const burrow = { record, paths, sandboxId } as MicrovmBurrow
    await writeSnapshot(burrow, { id: snapshotId, kind: 'files', target, endsAfter: true })
    await removeBurrow(host, paths, first)
    return { ...lost, filesSnapshotId: snapshotId }
  } catch (error) {
    host.failures.report(
      'adoption',
      error,
      { burrowId: id },
      'the files of a lost virtual machine were not saved',
    )
    return lost
  }
}
