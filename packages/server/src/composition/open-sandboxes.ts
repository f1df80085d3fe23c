import type { SandboxId, VolumeId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import type { Access } from '../access/access.ts'
import { Ceilings } from '../access/ceilings.ts'
import { checkQuota } from '../access/quotas.ts'
import { StoredAccess } from '../access/stored-access.ts'
import type { ServerConfig } from '../config/config.ts'
import type { Closing } from '../host/closing.ts'
import { FreeSpaceWatch } from '../host/free-space-watch.ts'
import { freeRoom, hostRoom } from '../host/host-room.ts'
import { ROOM_FOR_WAKE, type SpaceReserve } from '../host/space-reserve.ts'
import type { Log } from '../log.ts'
import { type EntryOf, recordEntries } from '../network/record-entries.ts'
import { JournalSpace } from '../runs/journal-space.ts'
import { MemorySampler } from '../sandbox/memory-sampler.ts'
import { OwnerQuotas } from '../sandbox/owner-quotas.ts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import { SandboxService } from '../sandbox/sandbox-service.ts'
import { Sandboxes } from '../sandbox/sandboxes.ts'
import { StartLimiter } from '../sandbox/start-limiter.ts'
import { stopUsers } from '../sandbox/stop-users.ts'
import { Quarantine } from '../scrub/quarantine.ts'
import { BUILT_IN_OWNER } from '../templates/built-in-descriptions.ts'
import { VolumeService } from '../volumes/volume-service.ts'
import { openNetwork } from './open-network.ts'
import type { Stores } from './open-stores.ts'

/** Starts beyond this are refused at once: each waiting start holds a request. */
const QUEUE_LENGTH = 512
const QUEUE_MS = 30_000
const DAY_MS = 24 * 3600 * 1000

export interface OpenSandboxes {
  readonly config: ServerConfig
  readonly engine: Engine
  readonly reserve: SpaceReserve
  readonly stores: Stores
  /** See `openEgress`. */
  readonly fence?: SharedArrayBuffer | undefined
  readonly log: Log
}

export type OpenedSandboxes = Awaited<ReturnType<typeof openSandboxes>>

/** Builds what every sandbox works with, and the service that creates and finds sandboxes. Recovery has not run yet. */
export async function openSandboxes(options: OpenSandboxes, opened: Closing) {
  const { config, engine, reserve, stores, fence, log } = options
  const { db, clock, ledger, journal, snapshots } = stores
  const sandboxes = new Sandboxes()
  const access = new StoredAccess(db, clock)
  const limits = openLimits(options, access, sandboxes)
  const { space, quotas, ceilings } = limits
  const record = (entries: readonly EntryOf[]) =>
    recordEntries({ db, ledger, log, clock }, (id) => sandboxes.find(id)?.isDeleted === false, entries)
  const elsewhere = (owner: string) => quotas.elsewhere?.(owner) ?? []
  const network = await openNetwork(
    { config, engine, stores, sandboxes, elsewhere, record, fence, log },
    opened,
  )
  const volumes = openVolumes(options, { sandboxes, quotas, ceilings, access })
  const freeSpace = new FreeSpaceWatch({
    reserve: { bytes: config.minFreeDiskBytes, files: config.minFreeFiles },
    free: () => freeRoom(config.dataDir),
  })
  const room = hostRoom(config.dataDir)
  const deps: SandboxDependencies = {
    ...{ engine, db, snapshots, ledger, sandboxes, quotas, volumes, clock, log },
    defaultIsolation: config.isolation,
    forbidsProcesses: config.processIsolation === 'forbidden',
    variables: stores.variables,
    rows: stores.sandboxes,
    lineage: stores.lineage,
    intents: stores.intents,
    starts: new StartLimiter({ ...config, queueLength: QUEUE_LENGTH, queueMs: QUEUE_MS }, room),
    memory: new MemorySampler(clock),
    quarantine: new Quarantine({ rows: stores.damaged, snapshots, now: clock.wallMs }),
    network: network.network,
    secrets: network.sandboxSecrets,
    templates: stores.templates,
    journal: {
      sync: () => journal.sync().catch((err) => log.warn({ err }, 'the journal of runs could not be synced')),
      bytesOf: (id) => space.bytesOf(id),
    },
    disk: {
      requireRoomToWrite: (row) => {
        freeSpace.requireRoomFor(row.id)
        volumes.requireRoomIn(row.volumes)
        volumes.requireUsable(row.volumes, row.owner)
      },
      makeRoomToWake: () => reserve.makeRoom(ROOM_FOR_WAKE),
    },
    listeners: [],
    background: new Set(),
  }
  opened.use({
    [Symbol.asyncDispose]: async () => {
      await Promise.allSettled(deps.background)
    },
  })
  const service = new SandboxService(deps)
  return { ...limits, ...network, deps, service, access, volumes, freeSpace, room, record }
}

/** Limits of keys and sandboxes: ceilings, quotas, and the space in the journal. */
function openLimits({ config, stores }: OpenSandboxes, access: StoredAccess, sandboxes: Sandboxes) {
  const { clock, journal, journalUpkeep, snapshots, volumes } = stores
  stores.sandboxes.settleNetwork(defaultNetwork(config))
  const space = new JournalSpace({
    ...config.journal,
    journal,
    upkeep: journalUpkeep,
    diskLimitOf: (id) => sandboxes.find(id)?.row.limits.diskBytes,
    keepMs: config.journal.keepDays * DAY_MS,
    now: () => clock.confirmedWallMs(),
  })
  // A revoked key still owns what it made. The server itself has no quota.
  const quotasOf = (owner: string) =>
    owner === BUILT_IN_OWNER ? {} : (access.find(owner) ?? access.get(owner)).quotas
  const ceilings = new Ceilings({ server: config.ceilings, defaults: config.defaults, ofKey: quotasOf })
  const quotas = new OwnerQuotas({
    sandboxes,
    checkCeilings: (owner, limits) => ceilings.check(owner, limits),
    checkQuota: (owner, used, wanted) => {
      const quota = quotasOf(owner)
      // Most keys have no quota, and adding up what an owner uses would slow down every wake.
      if (Object.values(quota).some((limit) => limit !== undefined)) checkQuota(quota, used(), wanted)
    },
    storedBytes: (owner) => snapshots.bytesOf(owner) + volumes.bytesOf(owner),
    journalBytes: (id) => space.bytesOf(id),
  })
  return { space, ceilings, quotas }
}

function openVolumes(
  { config, engine, stores, log }: OpenSandboxes,
  {
    sandboxes,
    quotas,
    ceilings,
    access,
  }: { sandboxes: Sandboxes; quotas: OwnerQuotas; ceilings: Ceilings; access: Access },
): VolumeService {
  return new VolumeService({
    rows: stores.volumes,
    engine,
    checkSize: (owner, diskBytes) => ceilings.check(owner, { diskBytes }),
    defaultBytes: (owner) => ceilings.volumeBytes(owner, config.volumeBytes),
    filesMax: config.ceilings.files,
    mountedIn: (id) => mountedIn(sandboxes, id),
    requireRoom: (owner) => quotas.requireDisk(owner),
    findKey: (ref) => findKey(access, ref),
    onUnshared: (id, keyId) => stopUsers(sandboxes, { id, keyId, log }),
    now: stores.clock.wallMs,
    log,
  })
}

/** A key that is not revoked. */
function findKey(access: Access, ref: string): { keyId: string; name: string } | undefined {
  const byId = access.find(ref)
  if (byId !== undefined) return byId
  const named = access.list().filter(({ name, revokedAt }) => name === ref && revokedAt === undefined)
  const [only] = named
  return only === undefined || named.length > 1 ? undefined : { keyId: only.id, name: only.name }
}

function mountedIn(sandboxes: Sandboxes, id: VolumeId): SandboxId[] {
  return [...sandboxes.all()].flatMap(({ row }) =>
    row.volumes.some(({ volumeId }) => volumeId === id) ? row.id : [],
  )
}

export function defaultNetwork({ network }: ServerConfig) {
  return { mode: network.defaultMode, allow: [] }
}
