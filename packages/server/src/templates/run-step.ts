import { createReadStream } from 'node:fs'
import { abortable } from '@dormouse/async'
import { DormouseError, newSandboxId, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import { DEFAULT_CONNECTIONS } from '@dormouse/contracts/http'
import type { Burrow, BurrowEnd, ProgramSettings } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import type { CreateSandbox, NetworkPolicy, SandboxLimits } from '../store/sandbox-rows.ts'
import type { BuildLog } from './build-log.ts'
import type { BuildSandbox, BuildSandboxes } from './build-sandbox.ts'
import type { Upload } from './templates.ts'

/** Output that the builder reads instead of logging it. */
const OUTPUT_MAX_CHARACTERS = 4 * 1024 ** 2
/** The agent accepts no more modules in one call. */
const PRELOAD_AT_ONCE = 64
const BUILD_ENV = { HOME: '/root', USER: 'root', LANG: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive' }

/** A script that bash runs as root in the sandbox. */
export interface Script {
  /** Shown in the log, and in the error when it fails. */
  readonly title: string
  /** Added to the title in the log and in the error. */
  readonly shown?: string
  readonly text: string
  /** Files of the host that it gets. */
  readonly uploads?: readonly Upload[]
  /** Receives the whole output, which is then not logged. */
  readonly onOutput?: (text: string) => void
}

/** What a sandbox of a build starts from: a template, or the files of an earlier step. */
export interface StepOrigin {
  readonly template: string
  readonly files?: SnapshotId | undefined
  /** How programs start, when it boots on files. */
  readonly image?: ProgramSettings | undefined
  readonly volumes?: CreateSandbox['volumes'] | undefined
}

/** A program that runs to its end in the sandbox. */
export interface BuildProcess {
  /** Shown in the error when it fails. */
  readonly title: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly user: string
  /** Receives the whole output, which is then not logged. */
  readonly onOutput?: ((text: string) => void) | undefined
}

/** A sandbox of a build while it runs. */
export interface BuildInside {
  readonly sandbox: BuildSandbox
  readonly burrow: Burrow
}

export interface Builder {
  readonly caller: Caller
  readonly limits: SandboxLimits
  readonly network: NetworkPolicy
  /** The longest life of one sandbox of the build, even if this server dies. */
  readonly timeoutMs: number
}

export interface StepParts {
  readonly sandboxes: Pick<BuildSandboxes, 'create'>
  readonly builder: Builder
  readonly log: BuildLog
  readonly signal: AbortSignal
  /** Called before a sandbox of the build exists, so that a later server can find and remove it. */
  readonly announce: (id: SandboxId) => void
}

/**
 * Runs scripts one after the other in a new sandbox, with the limits and the network of the builder, then deletes the
 * sandbox. Post: the snapshot has the files of `origin` plus one layer with the changes of the scripts, and no
 * processes. On failure nothing is left, and the error names the script.
 */
export async function runStep(
  parts: StepParts,
  step: { readonly origin: StepOrigin; readonly scripts: readonly Script[] },
): Promise<SnapshotId> {
  return stepInSandbox(parts, step.origin, async (inside) => {
    for (const script of step.scripts) await runScript(parts, inside, script)
  })
}

/** Runs work in a new sandbox, then deletes it. Post: the snapshot has the files of `origin` and what `work` changed. */
export async function stepInSandbox(
  parts: StepParts,
  origin: StepOrigin,
  work: (inside: BuildInside) => Promise<void>,
): Promise<SnapshotId> {
  return inSandbox(parts, origin, async (sandbox, burrow) => {
    await work({ sandbox, burrow })
    return (await sandbox.finish('files')).id
  })
}

export interface WarmUp {
  readonly origin: StepOrigin
  /** Modules of the base template. The build may have removed them. */
  readonly inherited: readonly string[]
  /** Modules that must be importable. */
  readonly preload: readonly string[]
}

/** Boots on the files of a step, imports modules and saves everything: sandboxes start from that snapshot. */
export async function warmUp(parts: StepParts, { origin, inherited, preload }: WarmUp): Promise<SnapshotId> {
  parts.log.say('==> starting it once')
  return inSandbox(parts, origin, async (sandbox, burrow) => {
    await whileItLives(sandbox, burrow, () => importModules(parts, burrow, { inherited, preload }))
    return (await sandbox.finish('full')).id
  })
}

/** Imports modules in the kernel of the template. Throws `setup_failed` when one of `preload` cannot be imported. */
export async function importModules(
  parts: Pick<StepParts, 'log' | 'signal'>,
  burrow: Pick<Burrow, 'guest'>,
  { inherited, preload }: Omit<WarmUp, 'origin'>,
): Promise<void> {
  const modules = [...new Set([...inherited, ...preload])]
  if (modules.length > 0) parts.log.say(`==> importing ${modules.join(', ')}`)
  const failed = await importAll(parts, burrow, modules)
  const missing = preload.filter((module) => failed.has(module))
  if (missing.length > 0) throw await importFailed(parts, burrow, missing)
}

/** Makes at least one call, even without modules, so that the kernel of the snapshot has answered once. */
async function importAll(
  { signal }: Pick<StepParts, 'signal'>,
  { guest }: Pick<Burrow, 'guest'>,
  modules: readonly string[],
): Promise<Set<string>> {
  const failed = new Set<string>()
  for (let from = 0; from === 0 || from < modules.length; from += PRELOAD_AT_ONCE) {
    const some = modules.slice(from, from + PRELOAD_AT_ONCE)
    for (const module of await guest.contexts.preload(some, { signal })) failed.add(module)
  }
  return failed
}

/** Runs work in a new sandbox, then deletes it. */
export async function inSandbox<Value>(
  { sandboxes, builder, signal, announce }: StepParts,
  origin: StepOrigin,
  work: (sandbox: BuildSandbox, burrow: Burrow) => Promise<Value>,
): Promise<Value> {
  signal.throwIfAborted()
  const id = newSandboxId()
  announce(id)
  const request = describeSandbox(builder, origin)
  const from = { id, from: origin.files, image: origin.image }
  const { sandbox } = await sandboxes.create(request, builder.caller, signal, from)
  try {
    const { burrow } = sandbox
    if (burrow === undefined) throw new DormouseError('burrow_ended', 'The sandbox of the build has ended.')
    await sandbox.preparing(burrow)
    return await work(sandbox, burrow)
  } finally {
    await sandbox.delete()
  }
}

function describeSandbox(
  { limits, network, timeoutMs }: Builder,
  { template, volumes = [] }: StepOrigin,
): CreateSandbox {
  return {
    template,
    limits,
    network,
    name: undefined,
    metadata: { 'dormouse/purpose': 'template build' },
    env: {},
    volumes,
    secrets: [],
    // It must not sleep between two scripts, nor while one waits for the network.
    idleTimeoutMs: 0,
    storeAfterMs: 0,
    maxBackgroundMs: 0,
    wakeOnTimer: false,
    connections: DEFAULT_CONNECTIONS,
    atMemoryLimit: 'kill',
    checkpointEveryMs: 0,
    // Its snapshot is the template, which is made of processes.
    isolation: 'process',
    expires: { afterMs: timeoutMs, action: 'delete' },
    ephemeral: true,
  }
}

async function runScript(parts: StepParts, inside: BuildInside, script: Script): Promise<void> {
  const title = script.shown === undefined ? script.title : `${script.title}: ${script.shown}`
  parts.log.say(`==> ${title}`)
  for (const { file, path } of script.uploads ?? [])
    await inside.burrow.guest.files.write(path, createReadStream(file), { user: 'root', parents: true })
  const args = ['/bin/bash', '-c', script.text]
  const { onOutput } = script
  await runProcess(parts, inside, { title, args, env: BUILD_ENV, user: 'root', cwd: '/root', onOutput })
}

/** Runs a program to its end and logs its output. Throws `setup_failed` unless it ends with 0. */
export async function runProcess(
  { log, signal, builder }: StepParts,
  { sandbox, burrow }: BuildInside,
  { title, onOutput, ...request }: BuildProcess,
): Promise<void> {
  let output = ''
  const exit = await whileItLives(sandbox, burrow, async () => {
    for await (const event of burrow.guest.processes.stream(request, { signal })) {
      if (event.type === 'exit') return event
      if (event.type !== 'stdout' && event.type !== 'stderr') continue
      if (onOutput === undefined || event.type === 'stderr') log.write(event.data)
      else if (output.length < OUTPUT_MAX_CHARACTERS) output += event.data
    }
    return undefined
  })
  if (exit?.exitCode !== 0) {
    // A burrow that has ended has no counters; the error then does without.
    const { oomKills = 0 } = await burrow.usage().catch(() => ({}) as { oomKills?: number })
    const last = log.lastLine
    const said = last === undefined || /^(==> |\[\d)/.test(last) ? '' : ` Its last output: ${last}`
    throw new DormouseError('setup_failed', `${title}: ${describeExit(exit, oomKills, builder)}${said}`)
  }
  onOutput?.(output)
}

function describeExit(
  exit: { readonly exitCode: number; readonly signal?: string } | undefined,
  oomKills: number,
  { limits }: Builder,
): string {
  const how =
    exit === undefined
      ? 'did not end'
      : exit.signal === undefined
        ? `failed with exit code ${exit.exitCode}`
        : `was ended by ${exit.signal}`
  return oomKills === 0
    ? `${how}.`
    : `${how}; the build ran out of its ${limits.memoryBytes} bytes of memory.`
}

/** A build cannot continue in another burrow: the processes of its scripts end with this one. */
export async function whileItLives<Value>(
  sandbox: BuildSandbox,
  burrow: Burrow,
  work: () => Promise<Value>,
): Promise<Value> {
  const lost = new AbortController()
  void burrow.ended.then(() => lost.abort())
  try {
    return await abortable(work(), lost.signal)
  } catch (error) {
    const isBroken = error instanceof DormouseError && BROKEN.has(error.code)
    if (error !== lost.signal.reason && !isBroken) throw error
    // A connection breaks before the reason is known: waits for the transition in progress, which records it. The
    // caller of that transition gets its error.
    await sandbox.settle().catch(() => {})
    if (!lost.signal.aborted && sandbox.burrow === burrow) throw error
    throw new DormouseError('setup_failed', describeEnd(sandbox, await burrow.ended))
  }
}

const BROKEN: ReadonlySet<string> = new Set(['agent_unreachable', 'burrow_ended'])

function describeEnd({ row, isDeleted }: BuildSandbox, end: BurrowEnd): string {
  const { diskBytes, limits } = row
  if (diskBytes !== undefined && diskBytes > limits.diskBytes)
    return `The build has written ${diskBytes} bytes; its limit is ${limits.diskBytes}.`
  if (isDeleted) return 'The sandbox of the build was deleted.'
  return end.reason === 'stored'
    ? 'The sandbox of the build was put to standby.'
    : 'The processes of the build were ended: its agent was killed, or the host ran out of memory.'
}

async function importFailed(
  { log, signal }: Pick<StepParts, 'log' | 'signal'>,
  { guest }: Pick<Burrow, 'guest'>,
  failed: readonly string[],
): Promise<DormouseError> {
  try {
    for await (const event of guest.contexts.output('default', { after: -1, follow: false, signal }))
      if (event.type === 'stdout' || event.type === 'stderr') log.write(event.data)
  } catch {
    // Without the output, the error only names the modules.
  }
  return new DormouseError('setup_failed', `These modules cannot be imported: ${failed.join(', ')}.`)
}
