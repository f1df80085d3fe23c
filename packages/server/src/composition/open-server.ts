import { join } from 'node:path'
import { SharedDeadline } from '@dormouse/async'
import { hasErrorCode } from '@dormouse/contracts'
import { DEFAULT_CONNECTIONS, DEFAULT_TEMPLATE } from '@dormouse/contracts/http'
import type { ItemStore, RecordStore } from '@dormouse/e2b'
import { PublicDialer } from '@dormouse/egress'
import type { Engine } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import { Sessions } from '../access/sessions.ts'
import type { StoredAccess } from '../access/stored-access.ts'
import type { Services } from '../api/services.ts'
import { loneNode } from '../cluster/nodes.ts'
import { previewDomain } from '../config/bind.ts'
import type { ServerConfig } from '../config/config.ts'
import { DeploymentService, type DeploymentServiceOptions } from '../deployments/deployment-service.ts'
import type { EventFeed } from '../fleet/event-feed.ts'
import { Fleet } from '../fleet/fleet.ts'
import { publishRun } from '../fleet/publish-run.ts'
import { Closing } from '../host/closing.ts'
import type { SpaceReserve } from '../host/space-reserve.ts'
import type { Log } from '../log.ts'
import { ServerMetrics } from '../metrics/server-metrics.ts'
import { PortService } from '../ports/port-service.ts'
import { RunService } from '../runs/run-service.ts'
import { dropSnapshot } from '../sandbox/drop-snapshot.ts'
import { type Recovery, recover } from '../sandbox/recover.ts'
import type { SandboxService } from '../sandbox/sandbox-service.ts'
import { type StandbyReport, standbyAll } from '../sandbox/standby-all.ts'
import { SshService } from '../ssh/ssh-service.ts'
import { buildBuiltIns } from '../templates/build-built-ins.ts'
import { BuiltInTemplates } from '../templates/built-in-templates.ts'
import { type BuilderTools, openTemplates } from '../templates/open-templates.ts'
import type { RecipeServices } from '../templates/recipe/build-recipe.ts'
import { RegistryAccess } from '../templates/recipe/registry-access.ts'
import { Uploads } from '../templates/recipe/uploads.ts'
import { UsageService } from '../usage/usage-service.ts'
import type { Volumes } from '../volumes/volumes.ts'
import { describeLone, type OpenedCluster, openCluster } from './open-cluster.ts'
import { openEvents } from './open-events.ts'
import { openJobs } from './open-jobs.ts'
import { defaultNetwork, type OpenedSandboxes, openSandboxes } from './open-sandboxes.ts'
import { openStores, type Stores } from './open-stores.ts'
import { openWatches } from './open-watches.ts'
import type { SharedServices, ShareState } from './share-state.ts'

export interface OpenServer {
  readonly config: ServerConfig
  readonly engine: Engine
  readonly builder: BuilderTools
  readonly reserve: SpaceReserve
  readonly log: Log
}

/** The server without HTTP and SSH. */
export interface ServerCore extends AsyncDisposable {
  readonly sandboxes: SandboxService
  readonly access: StoredAccess
  readonly ssh: SshService
  /** What only clients of E2B know. */
  readonly e2b: { readonly records: RecordStore; readonly items: ItemStore }
  readonly services: Omit<Services, 'health' | 'server'>
  readonly recovery: Recovery
  /** Undefined outside a cluster. */
  readonly cluster: OpenedCluster['member'] | undefined
  readonly shared: Pick<SharedServices, 'flush' | 'askOthers' | 'ssh'> | undefined
  /** Builds the templates that every key may use, in the background of a server that serves. */
  buildBuiltIns(signal: AbortSignal): Promise<void>
  /** Puts all sandboxes to standby, as many as there is time for. No sandbox is created from now on. */
  sleep(timeoutMs: number): Promise<StandbyReport>
}

/** Opens the databases, recovers what the last server left, and starts the watches. */
export async function openServer(options: OpenServer): Promise<ServerCore> {
  const closing = new Closing()
  try {
    return await assemble(options, closing)
  } catch (error) {
    await closing[Symbol.asyncDispose]()
    throw error
  }
}

/** Builds the layers bottom up. */
async function assemble(options: OpenServer, closing: Closing): Promise<ServerCore> {
  const { config, log } = options
  const stores = openStores(options, closing)
  const isClustered = config.cluster.servers.length > 0
  const fence = isClustered ? newFence() : undefined
  if (isClustered) await (await import('./share-authority.ts')).shareAuthority(config)
  const opened = await openSandboxes({ ...options, stores, fence }, closing)
  const { deps, service: sandboxes, access, volumes, secrets, ceilings } = opened
  const above = openAbove(options, { stores, opened }, closing)
  const { runs, templates, feed, ...others } = above
  const defaults = openDefaults(config, ceilings)
  const { uploads } = others
  const deploying = { stores, sandboxes, templates, uploads, feed, log, ...defaults }
  const deployments = closing.use(openDeployments(deploying))
  const work = openJobs({ config, stores, opened, runs, feed, deployments }, closing)
  const ports = openPorts(config, stores, access)
  const ssh = new SshService({ rows: stores.sshKeys, access, now: stores.clock.wallMs })
  deps.listeners.push(deployments.listener)
  const cluster = fence && (await openCluster({ ...options, opened, fence }, closing))
  const recovery = await recover(deps)
  if (cluster !== undefined) deps.listeners.push(cluster.member.listener)
  cluster?.member.start()
  const shared = cluster && (await openShared({ options, stores, opened, cluster, ssh, ...above }, closing))
  if (shared !== undefined) work.join(shared)
  await templates.open()
  await volumes.open()
  await startDeployments(deployments, shared)
  runs.removeOrphans()
  runs.startQueued()
  await work.start()
  others.webhooks.open()
  const scrub = openWatches({ config, stores, opened }, closing)
  return {
    ...{ sandboxes, access, ssh, recovery, shared },
    cluster: cluster?.member,
    e2b: { records: stores.e2b, items: stores.e2bItems },
    services: {
      ...{ access, sandboxes, runs, templates, volumes, secrets, ports, ssh, scrub, deployments, ...others },
      ...{ jobs: work.jobs, schedules: work.schedules },
      nodes: cluster?.nodes ?? loneNode(describeLone({ config, sandboxes: deps.sandboxes })),
      elsewhere: cluster?.elsewhere,
      placement: shared?.placement,
      ...(shared && { usage: shared.usage }),
      sessions: new Sessions({ rows: stores.sessions, access, nowMs: stores.clock.wallMs }),
      ...defaults,
    },
    buildBuiltIns: (signal) => {
      const catalogs = { catalog: stores.templates, now: stores.clock.wallMs, service: templates }
      return buildBuiltIns({ templates: new BuiltInTemplates(catalogs), ...options.builder, signal, log })
    },
    sleep: async (timeoutMs) => {
      work.stop()
      sandboxes.close()
      await templates.stopBuilds()
      return standbyAll(deps.sandboxes, log, timeoutMs)
    },
    [Symbol.asyncDispose]: () => closing[Symbol.asyncDispose](),
  }
}

/** Services of other hosts may come when those of this one are open. */
async function startDeployments(
  deployments: DeploymentService,
  shared: SharedServices | undefined,
): Promise<void> {
  if (shared !== undefined) deployments.join(shared.services)
  await deployments.open()
  shared?.services.start(deployments)
}

/** Only a host of a cluster loads this. */
async function openShared(
  parts: { options: OpenServer; cluster: OpenedCluster } & Omit<
    ShareState,
    'config' | 'log' | 'cluster' | 'rows' | 'clusterDb' | 'transfer'
  >,
  closing: Closing,
): Promise<SharedServices> {
  const { options, cluster, ...rest } = parts
  const { shareState } = await import('./share-state.ts')
  const { config, log } = options
  const { member, rows, db: clusterDb, transfer } = cluster
  return await shareState({ ...rest, config, log, cluster: member, rows, clusterDb, transfer }, closing)
}

/** Memory of a deadline that has passed: nothing goes out before the host has its lease. */
function newFence(): SharedArrayBuffer {
  return new SharedDeadline().memory
}

/** Defaults for sandboxes created without a policy. */
function openDefaults(
  config: ServerConfig,
  ceilings: OpenedSandboxes['ceilings'],
): Pick<Services, 'policyDefaults' | 'defaultLimits'> {
  return {
    defaultLimits: ({ keyId }) => ceilings.defaultLimits(keyId),
    policyDefaults: {
      idleTimeoutMs: config.idleTimeoutMs,
      storeAfterMs: config.storeAfterMs,
      maxBackgroundMs: config.maxBackgroundMs,
      network: defaultNetwork(config),
      connections: DEFAULT_CONNECTIONS,
    },
  }
}

function openDeployments({
  stores,
  feed,
  ...parts
}: { stores: Stores; feed: EventFeed } & Omit<
  DeploymentServiceOptions,
  'rows' | 'db' | 'journalDb' | 'settingsOf' | 'defaultTemplate' | 'nowMs' | 'onDeploy'
>): DeploymentService {
  return new DeploymentService({
    ...parts,
    ...{ rows: stores.services, db: stores.db, journalDb: stores.journalDb, nowMs: stores.clock.wallMs },
    settingsOf: (template, owner) => stores.templates.findUsable(template, owner)?.image,
    defaultTemplate: DEFAULT_TEMPLATE,
    onDeploy: (type, data, owner) => feed.publish({ type, owner, data: () => ({ ...data }) }),
  })
}

/** Services that use sandboxes or listen to what happens to them. */
function openAbove(
  options: OpenServer,
  { stores, opened }: { stores: Stores; opened: OpenedSandboxes },
  closing: Closing,
) {
  const { config, engine, builder } = options
  const { deps, service, space, quotas, network, room } = opened
  const { sandboxes, snapshots, starts, listeners, clock, log } = deps
  const { journal } = stores
  const { feed, webhooks } = openEvents(options, { stores, opened }, closing)
  const runs = closing.use(
    new RunService({
      ...{ journal, space, clock, log, findSandbox: (id) => sandboxes.find(id) },
      onRun: (type, row) =>
        publishRun(feed, { type, row, owner: sandboxes.find(row.sandboxId)?.row.owner, journal }),
    }),
  )
  listeners.push(runs.listener)
  const metrics = new ServerMetrics({
    engineFailures: () => engine.failures,
    sandboxes: () => sandboxes.all(),
    starts,
    runsUnderWay: () => runs.liveCount,
    network: () => network.total([...sandboxes.all()].map(({ id }) => id)),
    scrub: () => ({ ...stores.scrub.pass(), damagedSnapshots: stores.damaged.snapshots().length }),
    ...room,
  })
  listeners.push(metrics.listener)
  const usage = closing.use(
    new UsageService({
      ...{ snapshots, clock, log, rows: stores.usage, prices: config.prices },
      sandboxes: () => sandboxes.all(),
      findSandbox: (id) => sandboxes.find(id),
      storage: () => engine.storage(),
    }),
  )
  listeners.push(usage.listener)
  const recipes = openRecipes(options, { stores, opened })
  const fleet = new Fleet({
    feed,
    sandboxes,
    ledger: stores.ledger,
    lineage: stores.lineage,
    memory: deps.memory,
    snapshots,
    journal,
    usage,
    nowMs: clock.wallMs,
  })
  listeners.push(fleet.listener)
  listeners.push({ deleted: ({ id }) => stores.e2b.forget(id) })
  const templates = closing.use(
    openTemplates({
      ...{ snapshots, builder, config, log, catalog: stores.templates, sandboxes: service },
      requireQuota: (owner, memoryBytes) => quotas.requireNew(owner, memoryBytes),
      elsewhere: (owner) => quotas.elsewhere?.(owner) ?? [],
      defaultLimits: (keyId) => opened.ceilings.defaultLimits(keyId),
      checkNetwork: (policy) => network.check(policy),
      dropSnapshot: (id) => dropSnapshot(deps, id),
      ...{ now: clock.wallMs, recipes },
    }),
  )
  return { runs, metrics, usage, templates, uploads: recipes.uploads, fleet, feed, webhooks }
}

/** What builds from images and Dockerfiles need. */
function openRecipes(
  { config, engine }: OpenServer,
  { stores, opened }: { stores: Stores; opened: OpenedSandboxes },
): RecipeServices {
  const { deps, volumes } = opened
  return {
    importImage: (request) => engine.importImage(request),
    recordSnapshot: (snapshot, owner) => deps.snapshots.put(snapshot, { owner, isKept: false }),
    dropSnapshot: (id) => dropSnapshot(deps, id),
    cache: stores.buildSteps,
    uploads: new Uploads({
      directory: join(config.dataDir, 'uploads'),
      maxBytes: config.builds.diskBytes,
      now: deps.clock.wallMs,
    }),
    ensureVolume: (name, caller) => ensureVolume(volumes, name, caller),
    registries: new RegistryAccess({
      dialer: new PublicDialer({ proxy: config.network.proxy, ownAddresses: config.network.ownAddresses }),
      registriesConf: config.images.registriesConf,
    }),
  }
}

async function ensureVolume(volumes: Volumes, name: string, caller: Caller): Promise<void> {
  await volumes.create({ name }, caller).catch((error: unknown) => {
    if (!hasErrorCode(error, 'name_taken')) throw error
  })
}

function openPorts(config: ServerConfig, stores: Stores, access: StoredAccess): PortService {
  return new PortService({
    rows: stores.ports,
    access,
    domain: previewDomain(config),
    idleConnectionMs: config.idleConnectionMs,
    now: stores.clock.wallMs,
  })
}
