import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { DeployServiceRequest } from '@dormouse/contracts/http'
import { NODE_PRELOAD } from '@dormouse/guest'
import type { Caller } from '../access/caller.ts'
import { BuildLog } from '../templates/build-log.ts'
import { DEFAULT_PATH, PLAIN_SETTINGS, type RunSettings } from '../templates/recipe/recipe.ts'
import { startProgram } from '../templates/recipe/start-program.ts'
import { listTarEntries } from '../templates/recipe/tar-entries.ts'
import type { Uploads } from '../templates/recipe/uploads.ts'
import type { Templates } from '../templates/templates.ts'
import { firstCheck, untilHealthy } from './check-health.ts'
import { COPY_ALL, detectProject } from './detect-project.ts'
import type { LiveService } from './live-service.ts'
import type { Replica } from './replica.ts'
import type { Program, ReadyState, ServiceSettings, VersionPlan, VersionRow } from './service-rows.ts'
import { mergeSettings } from './service-settings.ts'

/** A program without a time of its own for getting ready. */
const READY_MS = 60_000
/** A program that came with its template runs already. */
const RUNNING_READY_MS = 10_000
const LOOK_MS = 100

export interface DeployServices {
  readonly templates: Pick<Templates, 'build' | 'get' | 'log' | 'delete'>
  readonly uploads: Pick<Uploads, 'find'>
  /** How programs of a template start. Undefined when its image does not say. */
  readonly settingsOf: (template: string, owner: string) => RunSettings | undefined
  readonly defaultTemplate: string
}

export interface Deployment {
  readonly service: LiveService
  readonly request: DeployServiceRequest
  /** Its state is `building`. */
  readonly version: VersionRow
  readonly caller: Caller
  readonly signal: AbortSignal
}

/**
 * Makes a version: builds its template, starts its program, waits until it is ready, saves that state, and sends
 * requests to it. The settings that came with it are in force from then on: a health check of the new version may mean
 * nothing to the old one. Throws when it failed; what it made is then removed, and the version before keeps serving.
 */
export async function deploy(services: DeployServices, deployment: Deployment): Promise<void> {
  const { service, signal } = deployment
  let { version } = deployment
  const put = (change: Partial<VersionRow>) => {
    version = { ...version, ...change }
    service.putVersion(version)
  }
  let replica: Replica | undefined
  try {
    const built = await buildTemplate(services, deployment)
    signal.throwIfAborted()
    put({ state: 'starting', builtTemplate: built.builtTemplate, plan: { ...version.plan, ...built.plan } })
    replica = await service.addReplica(version, undefined)
    const ready = await makeReady(services, { ...deployment, version }, replica)
    put({ ready })
    const started = await service.adopt(replica, version, ready)
    const settings = () => mergeSettings(service.row.settings, deployment.request)
    await untilAnswers(started, { version, health: settings().health })
    signal.throwIfAborted()
    put({ state: 'ready' })
    started.say(`version ${version.version} serves`)
    service.switchTo(version, settings())
  } catch (error) {
    if (replica !== undefined) await service.remove(replica)
    throw error
  }
}

async function untilAnswers(
  replica: Replica,
  { version, health }: { version: VersionRow; health: ServiceSettings['health'] },
): Promise<void> {
  const { ready, port } = version.plan
  const isStarted = version.ready?.program !== undefined
  const timeoutMs = ready?.timeoutMs ?? (isStarted ? READY_MS : RUNNING_READY_MS)
  await replica.untilAnswers({ timeoutMs, health }).catch((error: unknown) => {
    throw !isStarted && hasErrorCode(error, 'port_closed') ? nothingStarted(port, error) : error
  })
}

function nothingStarted(port: number, cause: unknown): DormouseError {
  return new DormouseError(
    'port_closed',
    `Nothing listens on port ${port}, and nothing says what to start there. Name the command: \`start\`, or \`--start\`.`,
    { details: { port }, cause },
  )
}

/** Builds what the request describes, unless it names a template. */
async function buildTemplate(
  services: DeployServices,
  { service, request, version, caller, signal }: Deployment,
): Promise<{ builtTemplate: string | undefined; plan: Pick<VersionPlan, 'template' | 'start'> }> {
  const { image, registryAuth, dockerfile, context, buildArgs, target, steps } = request
  const isBuilt = [image, dockerfile, context, steps].some((value) => value !== undefined)
  if (!isBuilt)
    return {
      builtTemplate: undefined,
      plan: { template: request.template ?? services.defaultTemplate, start: request.start },
    }
  const isDetected =
    context !== undefined && [image, dockerfile, steps, request.template].every((one) => !one)
  // Files for an image or a template, without a word on where they go.
  const isOnlyFiles = context !== undefined && dockerfile === undefined && steps === undefined
  const project = isDetected ? await detect(services, context, request.port, caller) : undefined
  const name = `service-${service.row.id.slice(3)}-v${version.version}`
  // Callers follow the log of the build by this name.
  service.putVersion({ ...version, builtTemplate: name })
  await services.templates.build(
    {
      name,
      description: `Version ${version.version} of the service "${service.row.name}"`,
      from: project?.from ?? request.template,
      ...{ packages: [], pip: [], commands: [], preload: [] },
      recipe: {
        image,
        registryAuth,
        dockerfile,
        context,
        buildArgs,
        target,
        // The first replica does it, with the environment of the service.
        startsServices: false,
        steps: project?.steps ?? steps ?? (isOnlyFiles ? COPY_ALL : []),
      },
    },
    caller,
  )
  await untilBuilt(services, name, { caller, signal })
  return { builtTemplate: name, plan: { template: name, start: request.start ?? project?.start } }
}

async function detect(services: DeployServices, context: string, port: number, caller: Caller) {
  const entries = await listTarEntries(await services.uploads.find(context, caller))
  return detectProject(new Set(entries.map(({ path }) => path)), port)
}

async function untilBuilt(
  { templates }: DeployServices,
  name: string,
  { caller, signal }: { caller: Caller; signal: AbortSignal },
): Promise<void> {
  // The log ends with the build.
  for await (const _line of await templates.log(name, -1, caller, signal)) signal.throwIfAborted()
  for (;;) {
    signal.throwIfAborted()
    const { state, error } = await templates.get(name, caller)
    if (state === 'ready') return
    if (state === 'failed')
      throw new DormouseError('setup_failed', `The build failed: ${error ?? 'see its log'}`)
    // The outcome is written a moment after the log has ended.
    await sleep(LOOK_MS, undefined, { signal })
  }
}

/** Starts the program in the first replica and saves the state in which it is ready. */
async function makeReady(
  services: DeployServices,
  { service, request, version, signal }: Deployment,
  { sandbox }: Replica,
): Promise<ReadyState> {
  const { plan } = version
  using _awake = sandbox.hold('a version of a service starts')
  const burrow = sandbox.runningBurrow()
  if (burrow === undefined)
    throw new DormouseError('conflict', 'The sandbox of the new version went to sleep.')
  const start = programOf(services, service, plan)
  const check = firstCheck(plan.port, mergeSettings(service.row.settings, request).health)
  let program: Program | undefined
  let eventSeq = -1
  if (start !== undefined) {
    // Waits for network and secrets, which the program may need.
    await sandbox.use({ cause: 'process', what: 'starting a service', signal }, async () => {})
    const settings = { ...PLAIN_SETTINGS, ...start }
    const ready = plan.ready ?? { port: plan.port, timeoutMs: READY_MS }
    let unwell: unknown
    const onFailure = (error: unknown) => {
      unwell = error
    }
    const processId = await startProgram({ log: new BuildLog(), signal }, burrow, {
      ...{ ...start, settings, ready },
      next: async (ended) => {
        if (check !== undefined) await untilHealthy(burrow.guest, check, { signal: ended, onFailure })
      },
    }).catch((error: unknown) => {
      throw unwell === undefined ? error : notReady(error, unwell)
    })
    program = { ...start, processId }
    for await (const { seq } of burrow.guest.processes.events(processId, {
      after: -1,
      follow: false,
      signal,
    }))
      eventSeq = seq
  }
  const { id } = await sandbox.snapshot({ name: 'ready', kind: 'full' })
  return { snapshotId: id as ReadyState['snapshotId'], program, eventSeq }
}

/** `unwell`: what the last health check said. */
function notReady(error: unknown, unwell: unknown): DormouseError {
  const [what, why] = [error, unwell].map((one) => (one instanceof Error ? one.message : String(one)))
  return new DormouseError('setup_failed', `${what} Its health check failed: ${why}`, { cause: error })
}

function programOf(
  { settingsOf }: DeployServices,
  { row }: LiveService,
  { start, template, env, port, cwd, user }: VersionPlan,
): Omit<Program, 'processId'> | undefined {
  const settings = settingsOf(template ?? '', row.owner)
  const args =
    start === undefined
      ? [...(settings?.entrypoint ?? []), ...(settings?.cmd ?? [])]
      : ['/bin/sh', '-c', start]
  if (args.length === 0) return undefined
  return {
    args,
    env: {
      PATH: DEFAULT_PATH,
      ...settings?.env,
      PORT: String(port),
      ...env,
      NODE_OPTIONS: [env['NODE_OPTIONS'] ?? settings?.env['NODE_OPTIONS'] ?? '', `--require=${NODE_PRELOAD}`]
        .join(' ')
        .trim(),
      // A service that waits for requests sleeps.
      DORMOUSE_KEEP_AWAKE: '0',
    },
    cwd: cwd ?? settings?.cwd ?? '/',
    user: user ?? settings?.user ?? 'root',
  }
}
