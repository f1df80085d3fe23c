import { join } from 'node:path'
import type { SandboxId, VolumeId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import { checkQuota } from '../access/quotas.ts'
import { StoredAccess } from '../access/stored-access.ts'
import type { Services } from '../api/services.ts'
import { previewDomain } from '../config/bind.ts'
import type { ServerConfig } from '../config/config.ts'
import { Closing } from '../host/closing.ts'
import { hostRoom } from '../host/host-room.ts'
import { Admission } from '../lifecycle/admission.ts'
import { dropSnapshot } from '../lifecycle/drop-snapshot.ts'
import { MemoryLooks } from '../lifecycle/memory-looks.ts'
import type { LifecycleListener, LifecycleParts, Log } from '../lifecycle/parts.ts'
import { type Recovery, recover } from '../lifecycle/recover.ts'
import { SandboxRegistry } from '../lifecycle/sandbox-registry.ts'
import { type AllAsleep, standbyAll } from '../lifecycle/standby-all.ts'
import { Watch } from '../lifecycle/watch.ts'
import { ServerMetrics } from '../metrics/server-metrics.ts'
import { Denials } from '../network/denials.ts'
import { NetworkService } from '../network/network-service.ts'
import { openEgress } from '../network/open-egress.ts'
import { type EntryOf, recordEntries } from '../network/record-entries.ts'
import { PortRows } from '../ports/port-rows.ts'
import { PortService } from '../ports/port-service.ts'
import { RunJournal } from '../runs/run-journal.ts'
import { RunService } from '../runs/run-service.ts'
import { openAuthority } from '../secrets/open-authority.ts'
import { SandboxSecrets } from '../secrets/sandbox-secrets.ts'
import { SealedValues } from '../secrets/sealed-value.ts'
import { SecretRows } from '../secrets/secret-rows.ts'
import { SecretService } from '../secrets/secret-service.ts'
import { secretsInUse } from '../secrets/secrets-in-use.ts'
import { SshKeyRows } from '../ssh/key-rows.ts'
import { SshService } from '../ssh/ssh-service.ts'
import { openDatabase } from '../store/database.ts'
import { IntentRows } from '../store/intent-rows.ts'
import { LedgerRows } from '../store/ledger-rows.ts'
import { journalMigrations, stateMigrations } from '../store/migrations/index.ts'
import { SandboxRows } from '../store/sandbox-rows.ts'
import { SnapshotRows } from '../store/snapshot-rows.ts'
import { TemplateRows } from '../templates/template-rows.ts'
import { type TemplateBuilder, TemplateService } from '../templates/template-service.ts'
import { UsageRows } from '../usage/usage-rows.ts'
import { UsageService } from '../usage/usage-service.ts'
import { VolumeRows } from '../volumes/volume-rows.ts'
import { VolumeService } from '../volumes/volume-service.ts'
import { VolumeWatch } from '../volumes/volume-watch.ts'

/** Waiting restores beyond this are refused at once: each holds a request. */
const QUEUE_LENGTH = 512
const QUEUE_MS = 30_000
/** Frozen sandboxes give their memory back before new ones are refused. */
const LOW_MEMORY_FACTOR = 1.5
const DAY_MS = 24 * 3600 * 1000

export interface OpenServer {
  readonly config: ServerConfig
  readonly engine: Engine
  readonly builder: TemplateBuilder
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

async function assemble({ config, engine, builder, log }: OpenServer, opened: Closing): Promise<ServerCore> {
  const { dataDir } = config
  const now = Date.now
  const db = opened.use(
    openDatabase({ path: join(dataDir, 'state.db'), migrations: stateMigrations, synchronous: 'FULL' }),
  )
  const journalDb = opened.use(
    openDatabase({ path: join(dataDir, 'journal.db'), migrations: journalMigrations, synchronous: 'NORMAL' }),
  )
  const access = new StoredAccess(db)
  const snapshots = new SnapshotRows(db)
  const room = hostRoom(dataDir)
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
    recordEntries({ db, ledger, log, now }, (id) => registry.find(id)?.body.isDeleted === false, entries)
  const denials = opened.use(new Denials({ record, now }))
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
  egress?.onDenied(({ sandboxId, ...denied }) => denials.add(sandboxId, denied))
  const network: NetworkService = opened.use(
    new NetworkService({
      egress,
      denials,
      secretsOf: (row) => secrets.secretsOf(row),
      recordFailure: (id, detail) => record([{ id, entry: { event: 'failed', cause: 'network', detail } }]),
      log,
    }),
  )
  const listeners: LifecycleListener[] = []
  const parts: LifecycleParts = {
    engine,
    db,
    rows,
    snapshots,
    intents: new IntentRows(db),
    ledger,
    admission,
    memory: new MemoryLooks({ now, clock: () => performance.now() }),
    network,
    secrets: new SandboxSecrets({ service: secrets, certificate: authority.certificate, log }),
    listeners,
    templateSnapshot: (name, owner) => templates.snapshotOf(name, owner),
    syncRuns: () => runs.sync(),
    background: new Set(),
    now,
    log,
  }
  opened.use({
    [Symbol.asyncDispose]: async () => {
      await Promise.allSettled(parts.background)
    },
  })
  const volumeRows = new VolumeRows(db)
  const registry = new SandboxRegistry(parts, {
    checkQuota: (owner, used, wanted) => {
      // One that is revoked still owns what it made.
      const { quotas } = access.find(owner) ?? access.get(owner)
      // Most keys have none, and adding up what an owner has takes time that a wake has not.
      if (Object.values(quotas).some((quota) => quota !== undefined)) checkQuota(quotas, used(), wanted)
    },
    volumeBytes: (owner) => volumeRows.bytesOf(owner),
    resolveVolumes: (mounts, caller) => volumes.resolve(mounts, caller),
  })
  const journal = new RunJournal(journalDb)
  const runs = opened.use(
    new RunService({
      journal,
      find: (id) => registry.find(id),
      now,
      keepRuns: config.journal.keepRuns,
      keepMs: config.journal.keepDays * DAY_MS,
      log,
    }),
  )
  listeners.push(runs.listener)
  const metrics = new ServerMetrics({
    sandboxes: () => registry.all(),
    admission,
    runsUnderWay: () => runs.liveCount,
    network: () => network.total([...registry.all()].map(({ id }) => id)),
    freeMemoryBytes: room.freeMemoryBytes,
    freeDiskBytes: room.freeDiskBytes,
  })
  listeners.push(metrics.listener)
  const usage = opened.use(
    new UsageService({
      rows: new UsageRows(journalDb),
      snapshots,
      sandboxes: () => registry.all(),
      storage: () => engine.storage(),
      prices: config.prices,
      now,
      log,
    }),
  )
  listeners.push(usage.listener)
  const templates = opened.use(
    new TemplateService({
      rows: new TemplateRows(db),
      snapshots,
      builder,
      isNeeded: (name, owner) => isTemplateNeeded(registry, snapshots, name, owner),
      dropSnapshot: (id) => dropSnapshot(parts, id),
      now,
      log,
    }),
  )
  const volumes = new VolumeService({
    rows: volumeRows,
    engine,
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
  await templates.open()
  const recovery = await recover(registry)
  await volumes.open()
  runs.collect()
  const volumeWatch = new VolumeWatch({
    rows: volumeRows,
    engine,
    inUse: () => writableVolumes(registry),
    log,
  })
  listeners.push(opened.use(volumeWatch).listener)
  opened.use(
    new Watch({
      registry,
      freeMemoryBytes: room.freeMemoryBytes,
      lowMemoryBytes: config.minFreeMemoryBytes * LOW_MEMORY_FACTOR,
    }),
  )
  return {
    registry,
    access,
    ssh,
    recovery,
    services: {
      ...{ access, sandboxes: registry, runs, templates, volumes, secrets, ports, ssh, usage, metrics },
      policyDefaults: {
        idleTimeoutMs: config.idleTimeoutMs,
        storeAfterMs: config.storeAfterMs,
        network: defaultNetwork,
      },
    },
    sleep: (timeoutMs) => {
      registry.close()
      return standbyAll(registry, timeoutMs)
    },
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  }
}

function isTemplateNeeded(
  registry: SandboxRegistry,
  snapshots: SnapshotRows,
  name: string,
  owner: string | undefined,
): boolean {
  for (const { body } of registry.all()) {
    const { row } = body
    // What was made from a snapshot and has been saved since stands on its own.
    if (row.template !== name || (owner !== undefined && row.owner !== owner)) continue
    if (owner === undefined || row.head === undefined) return true
  }
  return owner === undefined && snapshots.usesTemplate(name)
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
