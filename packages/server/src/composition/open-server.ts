import { join } from 'node:path'
import type { SandboxId, VolumeId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import { Ceilings } from '../access/ceilings.ts'
import { checkQuota } from '../access/quotas.ts'
import { StoredAccess } from '../access/stored-access.ts'
import type { Services } from '../api/services.ts'
import { hostClock } from '../clock/clock.ts'
import { ServerClock } from '../clock/server-clock.ts'
import { previewDomain } from '../config/bind.ts'
import type { ServerConfig } from '../config/config.ts'
import { Closing } from '../host/closing.ts'
import { freeRoom, hostRoom } from '../host/host-room.ts'
import { ROOM_FOR_RECORDS, ROOM_FOR_WAKE, type SpaceReserve } from '../host/space-reserve.ts'
import type { Log } from '../log.ts'
import { ServerMetrics } from '../metrics/server-metrics.ts'
import { DenialHistory } from '../network/denial-history.ts'
import { NetworkService } from '../network/network-service.ts'
import { openEgress } from '../network/open-egress.ts'
import { type EntryOf, recordEntries } from '../network/record-entries.ts'
import { PortRows } from '../ports/port-rows.ts'
import { PortService } from '../ports/port-service.ts'
import { JournalSpace } from '../runs/journal-space.ts'
import { JournalUpkeep } from '../runs/journal-upkeep.ts'
import { RunJournal } from '../runs/run-journal.ts'
import { RunService } from '../runs/run-service.ts'
import { Admission } from '../sandbox/admission.ts'
import { HostReserve } from '../sandbox/host-reserve.ts'
import { MemoryLooks } from '../sandbox/memory-looks.ts'
import { type Recovery, recover } from '../sandbox/recover.ts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import type { SandboxListener } from '../sandbox/sandbox-listener.ts'
import { SandboxRegistry } from '../sandbox/sandbox-registry.ts'
import { secretsInUse } from '../sandbox/secrets-in-use.ts'
import { type AllAsleep, standbyAll } from '../sandbox/standby-all.ts'
import { Watch } from '../sandbox/watch.ts'
import { DiskWatch } from '../sandbox/watch-disk.ts'
import { openScrub } from '../scrub/open-scrub.ts'
import { Quarantine } from '../scrub/quarantine.ts'
import { openAuthority } from '../secrets/open-authority.ts'
import { SandboxSecrets } from '../secrets/sandbox-secrets.ts'
import { SealedValues } from '../secrets/sealed-values.ts'
import { SecretRows } from '../secrets/secret-rows.ts'
import { SecretService } from '../secrets/secret-service.ts'
import { SshKeyRows } from '../ssh/key-rows.ts'
import { SshService } from '../ssh/ssh-service.ts'
import { openDatabase, openSharedDatabase } from '../store/database.ts'
import { IntentRows } from '../store/intent-rows.ts'
import { LedgerRows } from '../store/ledger-rows.ts'
import { journalMigrations, stateMigrations } from '../store/migrations/index.ts'
import { QuarantineRows } from '../store/quarantine-rows.ts'
import { SandboxRows } from '../store/sandbox-rows.ts'
import { ScrubRows } from '../store/scrub-rows.ts'
import { SnapshotRows } from '../store/snapshot-rows.ts'
import { type BuilderTools, openTemplates } from '../templates/open-templates.ts'
import type { TemplateService } from '../templates/template-service.ts'
import { UsageRows } from '../usage/usage-rows.ts'
import { UsageService } from '../usage/usage-service.ts'
import { UnmeasuredVolumes } from '../volumes/unmeasured-volumes.ts'
import { VolumeRows } from '../volumes/volume-rows.ts'
import { VolumeService } from '../volumes/volume-service.ts'

/** Waiting restores beyond this are refused at once: each holds a request. */
const QUEUE_LENGTH = 512
const QUEUE_MS = 30_000
/** Frozen sandboxes give their memory back before new ones are refused. */
const LOW_MEMORY_FACTOR = 1.5
/** The share of the reserve that only state.db and wakes may use. */
const RESERVE_FOR_RECORDS = 0.5
const DAY_MS = 24 * 3600 * 1000

export interface OpenServer {
  readonly config: ServerConfig
  readonly engine: Engine
  readonly builder: BuilderTools
  readonly reserve: SpaceReserve
  readonly log: Log
}

/** Everything but HTTP. */
export interface ServerCore extends AsyncDisposable {
  readonly registry: SandboxRegistry
  readonly access: StoredAccess
  readonly ssh: SshService
  readonly services: Omit<Services, 'health'>
  readonly recovery: Recovery
  /** Puts everything to standby, for as long as there is time. */
  sleep(timeoutMs: number): Promise<AllAsleep>
}

/** Opens the databases, brings rows and burrows into agreement, and begins to watch. */
export async function openServer(options: OpenServer): Promise<ServerCore> {
  const opened = new Closing()
  try {
    return await assemble(options, opened)
  } catch (error) {
    await opened[Symbol.asyncDispose]()
    throw error
  }
}

async function assemble(
  { config, engine, builder, reserve, log }: OpenServer,
  opened: Closing,
): Promise<ServerCore> {
  const { dataDir } = config
  opened.use(reserve.keepWhole())
  const db = opened.use(
    openDatabase({
      ...{ path: join(dataDir, 'state.db'), migrations: stateMigrations, synchronous: 'FULL' },
      makeRoom: () => reserve.makeRoom(ROOM_FOR_RECORDS),
    }),
  )
  const journalDb = opened.use(
    openSharedDatabase({
      ...{ path: join(dataDir, 'journal.db'), migrations: journalMigrations, synchronous: 'NORMAL' },
      // What runs say must not use up what deleting needs.
      makeRoom: () => reserve.makeRoom(ROOM_FOR_RECORDS, { leaves: RESERVE_FOR_RECORDS }),
    }),
  )
  const usageRows = new UsageRows(journalDb)
  const clock = new ServerClock({ clock: hostClock, lastRecordedMs: usageRows.countedUntil, log })
  const now = clock.wallMs
  const journal = new RunJournal(journalDb)
  const space = new JournalSpace({
    ...config.journal,
    journal,
    upkeep: opened.use(new JournalUpkeep(journalDb, log)),
    diskLimitOf: (id) => registry.find(id)?.body.row.limits.diskBytes,
    keepMs: config.journal.keepDays * DAY_MS,
    now: () => clock.confirmedWallMs(),
  })
  const access = new StoredAccess(db, clock)
  const snapshots = new SnapshotRows(db)
  const damaged = new QuarantineRows(db)
  const quarantine = new Quarantine({ rows: damaged, snapshots, now })
  const scrubRows = new ScrubRows(db)
  const room = hostRoom(dataDir)
  const hostReserve = new HostReserve({
    reserve: { bytes: config.minFreeDiskBytes, files: config.minFreeFiles },
    free: () => freeRoom(dataDir),
  })
  const admission = new Admission(
    {
      restoresAtOnce: config.restoresAtOnce,
      queueLength: QUEUE_LENGTH,
      queueMs: QUEUE_MS,
      minFreeMemoryBytes: config.minFreeMemoryBytes,
      minFreeDiskBytes: config.minFreeDiskBytes,
    },
    room,
  )
  const rows = new SandboxRows(db)
  const ledger = opened.use(new LedgerRows(db))
  const defaultNetwork = { mode: config.network.defaultMode, allow: [] }
  rows.settleNetwork(defaultNetwork)
  const record = (entries: readonly EntryOf[]) =>
    recordEntries({ db, ledger, log, clock }, (id) => registry.find(id)?.body.isDeleted === false, entries)
  const denials = opened.use(new DenialHistory({ record, clock }))
  const authority = openAuthority(join(dataDir, 'edge.pem'))
  const secrets = new SecretService({
    rows: new SecretRows(db),
    values: SealedValues.open(join(dataDir, 'secrets.key')),
    ...secretsInUse(() => registry),
    now,
    log,
  })
  const egress = engine.capabilities.network
    ? await openEgress({ config: config.network, authority, reopen: (id) => network.reopen(id), log })
    : undefined
  if (egress !== undefined) opened.use({ [Symbol.asyncDispose]: () => egress.close() })
  egress?.onDenial(({ sandboxId, ...denied }) => denials.add(sandboxId, denied))
  const network: NetworkService = opened.use(
    new NetworkService({
      egress,
      denials,
      secretsOf: (row) => secrets.secretsOf(row),
      recordFailure: (id, detail) => record([{ id, entry: { event: 'failed', cause: 'network', detail } }]),
      log,
    }),
  )
  const listeners: SandboxListener[] = []
  const parts: SandboxDependencies = {
    engine,
    db,
    rows,
    snapshots,
    quarantine,
    intents: new IntentRows(db),
    ledger,
    admission,
    memory: new MemoryLooks(clock),
    network,
    secrets: new SandboxSecrets({ service: secrets, certificate: authority.certificate, log }),
    listeners,
    templateSnapshots: (name, owner) => templates.snapshotsOf(name, owner),
    syncRuns: () => runs.sync(),
    journalBytes: (id) => space.bytesOf(id),
    requireRoomToWrite: (row) => {
      hostReserve.requireRoomFor(row.id)
      volumes.requireRoomIn(row.volumes)
    },
    makeRoomToWake: () => reserve.makeRoom(ROOM_FOR_WAKE),
    background: new Set(),
    clock,
    log,
  }
  opened.use({
    [Symbol.asyncDispose]: async () => {
      await Promise.allSettled(parts.background)
    },
  })
  const volumeRows = new VolumeRows(db)
  // One that is revoked still owns what it made.
  const quotasOf = (owner: string) => (access.find(owner) ?? access.get(owner)).quotas
  const ceilings = new Ceilings(config.ceilings, quotasOf)
  const registry = new SandboxRegistry(parts, {
    checkCeilings: (owner, limits) => ceilings.check(owner, limits),
    checkQuota: (owner, used, wanted) => {
      const quotas = quotasOf(owner)
      // Most keys have none, and adding up what an owner has takes time that a wake has not.
      if (Object.values(quotas).some((quota) => quota !== undefined)) checkQuota(quotas, used(), wanted)
    },
    volumeBytes: (owner) => volumeRows.bytesOf(owner),
    resolveVolumes: (mounts, caller) => volumes.resolve(mounts, caller),
  })
  const runs = opened.use(new RunService({ journal, space, find: (id) => registry.find(id), clock, log }))
  listeners.push(runs.listener)
  const metrics = new ServerMetrics({
    engineFailures: () => engine.failures,
    sandboxes: () => registry.all(),
    admission,
    runsUnderWay: () => runs.liveCount,
    network: () => network.total([...registry.all()].map(({ id }) => id)),
    scrub: () => ({ ...scrubRows.pass(), damagedSnapshots: damaged.snapshots().length }),
    freeMemoryBytes: room.freeMemoryBytes,
    freeDiskBytes: room.freeDiskBytes,
  })
  listeners.push(metrics.listener)
  const usage = opened.use(
    new UsageService({
      rows: usageRows,
      snapshots,
      sandboxes: () => registry.all(),
      storage: () => engine.storage(),
      prices: config.prices,
      clock,
      log,
    }),
  )
  listeners.push(usage.listener)
  const templates: TemplateService = opened.use(openTemplates({ db, registry, builder, config }))
  const volumes: VolumeService = new VolumeService({
    rows: volumeRows,
    engine,
    checkSize: (owner, diskBytes) => ceilings.check(owner, { diskBytes }),
    defaultBytes: (owner) => ceilings.volumeBytes(owner, config.volumeBytes),
    filesMax: config.ceilings.files,
    mountedIn: (id) => mountedIn(registry, id),
    requireRoom: (owner) => registry.requireRoomOnDisk(owner),
    now,
    log,
  })
  const ports = new PortService({
    rows: new PortRows(db),
    access,
    domain: previewDomain(config),
    idleConnectionMs: config.idleConnectionMs,
    now,
  })
  const ssh = new SshService({ rows: new SshKeyRows(db), access, now })
  const recovery = await recover(registry)
  await templates.open()
  await volumes.open()
  runs.collect()
  runs.takeUpQueued()
  const unmeasuredVolumes = new UnmeasuredVolumes({
    ...{ rows: volumeRows, engine, inUse: () => writableVolumes(registry) },
    limitsOf: (row) => volumes.limitsOf(row),
    onOver: (id) => disk.stopWriters(id),
  })
  listeners.push(unmeasuredVolumes.listener)
  const disk = opened.use(
    new DiskWatch({ registry, reserve: hostReserve, volumes: () => unmeasuredVolumes.list() }),
  )
  opened.use(
    new Watch({
      ...{ registry, disk },
      freeMemoryBytes: room.freeMemoryBytes,
      lowMemoryBytes: config.minFreeMemoryBytes * LOW_MEMORY_FACTOR,
    }),
  )
  const scrub = opened.use(
    openScrub({ engine, registry, rows: scrubRows, damaged, config: config.scrub, record }),
  )
  return {
    registry,
    access,
    ssh,
    recovery,
    services: {
      ...{ access, sandboxes: registry, runs, templates, volumes, secrets, ports, ssh, usage },
      ...{ scrub, metrics },
      defaultLimits: ({ keyId }) => ceilings.defaultLimits(keyId),
      policyDefaults: {
        idleTimeoutMs: config.idleTimeoutMs,
        storeAfterMs: config.storeAfterMs,
        network: defaultNetwork,
      },
    },
    sleep: async (timeoutMs) => {
      registry.close()
      await templates.stopBuilds()
      return standbyAll(registry, timeoutMs)
    },
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  }
}

function mountedIn(registry: SandboxRegistry, id: VolumeId): SandboxId[] {
  return [...registry.all()].flatMap(({ body }) =>
    body.row.volumes.some(({ volumeId }) => volumeId === id) ? body.id : [],
  )
}

function writableVolumes(registry: SandboxRegistry): VolumeId[] {
  return [...registry.all()].flatMap(({ body: { row } }) =>
    row.state === 'running'
      ? row.volumes.filter(({ readOnly }) => !readOnly).map(({ volumeId }) => volumeId)
      : [],
  )
}
