import { DormouseError, newSandboxId, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, BurrowEnd } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import type { LiveSandbox } from '../sandbox/live-sandbox.ts'
import type { SandboxRegistry } from '../sandbox/sandbox-registry.ts'
import type { CreateSandbox } from '../sandbox/service.ts'
import type { NetworkPolicy, SandboxLimits } from '../store/sandbox-rows.ts'
import type { BuildLog } from './build-log.ts'

/** Output that is meant for us and not for the log. */
const OUTPUT_MAX_CHARACTERS = 4 * 1024 ** 2
/** The agent takes no more in one call. */
const PRELOAD_AT_ONCE = 64
const BUILD_ENV = { HOME: '/root', USER: 'root', LANG: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive' }

/** Something that bash runs as root of the sandbox. */
export interface Script {
  /** Named in the log, and in the error when it fails. */
  readonly title: string
  /** Added to its title in the log and in the error. */
  readonly shown?: string
  readonly text: string
  /** Gets what it prints, whole, instead of the log. */
  readonly onOutput?: (text: string) => void
}

/** What a sandbox of a build starts from: a template, or the files that an earlier step has left. */
export interface StepOrigin {
  readonly template: string
  readonly files?: SnapshotId | undefined
}

export interface Builder {
  readonly caller: Caller
  readonly limits: SandboxLimits
  readonly network: NetworkPolicy
  /** How long one sandbox of it may be there at most, whatever becomes of this server. */
  readonly timeoutMs: number
}

export interface StepParts {
  readonly sandboxes: Pick<SandboxRegistry, 'create'>
  readonly builder: Builder
  readonly log: BuildLog
  readonly signal: AbortSignal
  /** Called before a sandbox of the build exists: what is left of a build is found by it. */
  readonly announce: (id: SandboxId) => void
}

/**
 * Runs scripts one after the other in a sandbox of its own, with the limits and the network of the builder, and ends it.
 * Post: the snapshot has the files of `origin` with what the scripts changed as one layer; processes that they left are gone.
 * On failure nothing is left; the error says which script failed.
 */
export async function runStep(
  parts: StepParts,
  step: { readonly origin: StepOrigin; readonly scripts: readonly Script[] },
): Promise<SnapshotId> {
  return inSandbox(parts, step.origin, async (sandbox, burrow) => {
    for (const script of step.scripts) await runScript(parts, { sandbox, burrow, script })
    return (await sandbox.finish('files')).id
  })
}

export interface WarmUp {
  readonly origin: StepOrigin
  /** Modules of what it was built on: the build may have removed them. */
  readonly inherited: readonly string[]
  /** Modules that have to be there. */
  readonly preload: readonly string[]
}

/** Boots on the files of a step, imports modules, and saves all of it: sandboxes start from there. */
export async function warmUp(parts: StepParts, { origin, inherited, preload }: WarmUp): Promise<SnapshotId> {
  const modules = [...new Set([...inherited, ...preload])]
  parts.log.say(modules.length === 0 ? '==> starting it once' : `==> importing ${modules.join(', ')}`)
  return inSandbox(parts, origin, async (sandbox, burrow) => {
    const failed = await whileItLives(sandbox, burrow, () => importAll(parts, burrow, modules))
    const missing = preload.filter((module) => failed.has(module))
    if (missing.length > 0) throw await importFailed(parts, burrow, missing)
    return (await sandbox.finish('full')).id
  })
}

/** At least one call, though there be no module: the kernel of a new sandbox has answered once. */
async function importAll(
  { signal }: StepParts,
  { guest }: Burrow,
  modules: readonly string[],
): Promise<Set<string>> {
  const failed = new Set<string>()
  for (let from = 0; from === 0 || from < modules.length; from += PRELOAD_AT_ONCE) {
    const some = modules.slice(from, from + PRELOAD_AT_ONCE)
    for (const module of await guest.contexts.preload(some, { signal })) failed.add(module)
  }
  return failed
}

async function inSandbox<Value>(
  { sandboxes, builder, signal, announce }: StepParts,
  origin: StepOrigin,
  work: (sandbox: LiveSandbox, burrow: Burrow) => Promise<Value>,
): Promise<Value> {
  signal.throwIfAborted()
  const id = newSandboxId()
  announce(id)
  const request = describeSandbox(builder, origin.template)
  const { sandbox } = await sandboxes.create(request, builder.caller, signal, { id, from: origin.files })
  try {
    const { burrow } = sandbox.body
    if (burrow === undefined) throw new DormouseError('burrow_ended', 'The sandbox of the build has ended.')
    await sandbox.body.preparing(burrow)
    return await work(sandbox, burrow)
  } finally {
    await sandbox.delete()
  }
}

function describeSandbox({ limits, network, timeoutMs }: Builder, template: string): CreateSandbox {
  return {
    template,
    limits,
    network,
    name: undefined,
    metadata: { 'dormouse/purpose': 'template build' },
    env: {},
    volumes: [],
    secrets: [],
    // It sleeps neither between two scripts nor while one waits for the network.
    idleTimeoutMs: 0,
    storeAfterMs: 0,
    expires: { afterMs: timeoutMs, action: 'delete' },
    ephemeral: true,
  }
}

async function runScript(
  { log, signal, builder }: StepParts,
  { sandbox, burrow, script }: { sandbox: LiveSandbox; burrow: Burrow; script: Script },
): Promise<void> {
  const name = script.shown === undefined ? script.title : `${script.title}: ${script.shown}`
  log.say(`==> ${name}`)
  let output = ''
  const request = {
    args: ['/bin/bash', '-c', script.text],
    env: BUILD_ENV,
    user: 'root',
    cwd: '/root',
  } as const
  const exit = await whileItLives(sandbox, burrow, async () => {
    for await (const event of burrow.guest.processes.stream(request, { signal })) {
      if (event.type === 'exit') return event
      if (event.type !== 'stdout' && event.type !== 'stderr') continue
      if (script.onOutput === undefined || event.type === 'stderr') log.write(event.data)
      else if (output.length < OUTPUT_MAX_CHARACTERS) output += event.data
    }
    return undefined
  })
  if (exit?.exitCode !== 0) {
    const { oomKills = 0 } = await burrow.usage().catch(() => ({}) as { oomKills?: number })
    throw new DormouseError('setup_failed', `${name}: ${describeExit(exit, oomKills, builder)}`)
  }
  script.onOutput?.(output)
}

function describeExit(
  exit: { readonly exitCode: number; readonly signal?: string } | undefined,
  oomKills: number,
  { limits }: Builder,
): string {
  const how =
    exit === undefined
      ? 'did not come to an end'
      : exit.signal === undefined
        ? `failed with exit code ${exit.exitCode}`
        : `was ended by ${exit.signal}`
  return oomKills === 0
    ? `${how}.`
    : `${how}; the build ran out of its ${limits.memoryBytes} bytes of memory.`
}

/** A build goes on in no other burrow: what its scripts had started is gone with this one. */
async function whileItLives<Value>(
  sandbox: LiveSandbox,
  burrow: Burrow,
  work: () => Promise<Value>,
): Promise<Value> {
  const lost = burrow.ended.then(async (end) => {
    // Whoever has ended it writes down why.
    await sandbox.settle().catch(() => {})
    throw new DormouseError('setup_failed', describeEnd(sandbox, end))
  })
  lost.catch(() => {})
  const working = work()
  working.catch(() => {})
  try {
    return await Promise.race([working, lost])
  } catch (error) {
    if (!(error instanceof DormouseError && BROKEN.has(error.code))) throw error
    // A connection breaks before it is known why: what is being done to the sandbox comes first.
    await sandbox.settle().catch(() => {})
    if (sandbox.body.burrow === burrow) throw error
    return await lost
  }
}

const BROKEN: ReadonlySet<string> = new Set(['agent_unreachable', 'burrow_ended'])

function describeEnd({ body }: LiveSandbox, end: BurrowEnd): string {
  const { diskBytes, limits } = body.row
  if (diskBytes !== undefined && diskBytes > limits.diskBytes)
    return `The build has written ${diskBytes} bytes; its limit is ${limits.diskBytes}.`
  if (body.isDeleted) return 'The sandbox of the build was deleted.'
  return end.reason === 'stored'
    ? 'The sandbox of the build was put to standby.'
    : 'The processes of the build were ended: its agent was killed, or the host ran out of memory.'
}

async function importFailed(
  { log, signal }: StepParts,
  { guest }: Burrow,
  failed: readonly string[],
): Promise<DormouseError> {
  try {
    for await (const event of guest.contexts.output('default', { after: -1, follow: false, signal }))
      if (event.type === 'stdout' || event.type === 'stderr') log.write(event.data)
  } catch {
    // The names of the modules have to do.
  }
  return new DormouseError('setup_failed', `These modules cannot be imported: ${failed.join(', ')}.`)
}
