import { setTimeout as sleep } from 'node:timers/promises'
import { abortable } from '@dormouse/async'
import { DormouseError, hasErrorCode, type SandboxId } from '@dormouse/contracts'
import type { ServiceAnswer } from '@dormouse/contracts/http'
import type { Burrow, Guest } from '@dormouse/engine'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import { CHECK_TIMEOUT_MS, checkHealth, firstCheck, untilHealthy } from './check-health.ts'
import { followProgram, type ProgramExit } from './follow-program.ts'
import type { ServiceLog } from './service-log.ts'
import type { Program, ReplicaRow, ServiceRows, ServiceSettings } from './service-rows.ts'

type View = ServiceAnswer['replicas']['items'][number]

const FIRST_DELAY_MS = 1_000
const LAST_DELAY_MS = 60_000
/** A program that ran this long starts again without the delays of its earlier ends. */
const LONG_MS = 60_000
/** Longer than most requests that wake a sandbox take, and short for a reader of the log. */
const FOLLOW_DELAY_MS = 50
const START_TIMEOUT_MS = 60_000
/** Ids of processes that a rollback of the sandbox may lead back to. */
const PROCESSES_KEPT = 8

export interface ReplicaOptions {
  readonly row: ReplicaRow
  readonly sandbox: SandboxHandle
  readonly port: number
  /** Undefined: the program came with the template, and cannot be started again. */
  readonly program: Program | undefined
  /** The last event of the first process that the log of another replica has. */
  readonly firstEventSeq: number
  readonly rows: ServiceRows
  readonly log: ServiceLog
  readonly settings: () => ServiceSettings
  /** The program ended and cannot be started again in this sandbox. */
  readonly onDead: (replica: Replica) => void
}

/** One sandbox that serves requests of a service: follows its program, and starts it again when it ends. */
export class Replica {
  readonly #options: ReplicaOptions
  readonly #stop = new AbortController()
  #row: ReplicaRow
  #state: View['state']
  #following: AbortController | undefined
  #isFollowed = false
  #followTimer: NodeJS.Timeout | undefined
  #ready: Promise<void>
  #setReady: () => void = () => {}
  #startedAtMs = 0
  #delayMs = FIRST_DELAY_MS
  #failedChecks = 0
  #isChecked = false
  /** Requests under way. */
  requests = 0
  usedAtMs = performance.now()

  constructor(options: ReplicaOptions) {
    this.#options = options
    this.#row = options.row
    this.#state = options.row.isReady ? 'ready' : 'starting'
    this.#ready = options.row.isReady ? Promise.resolve() : this.#newReady()
  }

  get id(): SandboxId {
    return this.#row.sandboxId
  }

  get version(): number {
    return this.#row.version
  }

  get sandbox(): SandboxHandle {
    return this.#options.sandbox
  }

  get port(): number {
    return this.#options.port
  }

  get state(): View['state'] {
    return this.#state
  }

  get isAwake(): boolean {
    return this.#runningBurrow() !== undefined
  }

  /** Undefined while it sleeps, and when a caller has deleted the sandbox: then the replica is about to be forgotten. */
  #runningBurrow(): Burrow | undefined {
    try {
      return this.sandbox.runningBurrow()
    } catch (error) {
      if (hasErrorCode(error, 'not_found')) return undefined
      throw error
    }
  }

  view(): View {
    const { sandboxId, version, restarts } = this.#row
    const isAwake = this.#state !== 'draining' && this.isAwake
    return { sandboxId, version, restarts, state: this.#state, isAwake, requests: this.requests }
  }

  /** It can serve. */
  setReady(): void {
    if (!this.#row.isReady) this.#put({ ...this.#row, isReady: true })
    this.#state = 'ready'
    this.#startedAtMs = performance.now()
    this.#failedChecks = 0
    this.#setReady()
  }

  /** Resolves when it can serve. Throws `service_unavailable` when its program does not run. */
  async untilReady(signal?: AbortSignal): Promise<void> {
    if (this.#hasFailed()) throw this.#unavailable()
    await abortable(this.#ready, signal)
    if (this.#hasFailed()) throw this.#unavailable()
  }

  /** Resolves when the program listens and passes its health check. Throws `port_closed` or `service_unavailable`. */
  untilAnswers({
    timeoutMs,
    health,
  }: {
    timeoutMs: number
    health: ServiceSettings['health']
  }): Promise<void> {
    const check = firstCheck(this.port, health)
    return this.untilListens({ timeoutMs }, async (guest) => {
      if (check !== undefined) await untilHealthy(guest, check, { signal: AbortSignal.timeout(timeoutMs) })
    })
  }

  /** Keeps the sandbox awake until the program listens and `next` is done. Throws `port_closed`. */
  async untilListens(
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal | undefined },
    next?: (guest: Guest) => Promise<void>,
  ): Promise<void> {
    using _awake = this.sandbox.hold('the service starts', timeoutMs)
    await this.sandbox.use({ cause: 'port', what: 'waiting for a service', signal }, async (guest) => {
      await guest.ports.wait(this.port, { timeoutMs, ...(signal && { signal }) })
      await next?.(guest)
    })
  }

  /** It gets no new requests. */
  drain(): void {
    this.#state = 'draining'
    this.stop()
  }

  stop(): void {
    clearTimeout(this.#followTimer)
    this.#stop.abort()
    this.#following?.abort()
  }

  /** Follows the program until the burrow ends. Does not keep the sandbox awake. */
  async #follow({ guest }: Pick<Burrow, 'guest'>): Promise<void> {
    if (this.#options.program === undefined || this.#stop.signal.aborted) return
    this.#following?.abort()
    const following = new AbortController()
    this.#following = following
    this.#isFollowed = true
    const { signal } = following
    try {
      const processId = await this.#runningProcess(guest)
      if (signal.aborted) return
      if (processId === undefined) return void this.#ended('does not run')
      const after = this.#options.log.lastEventOf(this.id, processId) ?? this.#firstSeqOf(processId)
      const exit = await followProgram(guest, { processId, after, signal }, (line) =>
        this.#options.log.add({ ...line, processId, sandboxId: this.id, version: this.version }),
      )
      if (exit !== undefined && !signal.aborted) this.#ended(describeExit(exit))
    } catch {
      // The sandbox went to sleep or its burrow ended. The next burrow is followed again.
    } finally {
      if (this.#following === following) this.#isFollowed = false
    }
  }

  /** Call for every burrow of the sandbox. The request that woke it comes first: the agent does one thing at a time. */
  followSoon(): void {
    this.#following?.abort()
    this.#isFollowed = false
    clearTimeout(this.#followTimer)
    this.#followTimer = setTimeout(() => this.followNow(), FOLLOW_DELAY_MS).unref()
  }

  /** Does nothing if the program is followed. A sleep that was undone ends that, but not the burrow. */
  followNow(): void {
    clearTimeout(this.#followTimer)
    const burrow = this.#isFollowed || this.#state === 'draining' ? undefined : this.#runningBurrow()
    if (burrow !== undefined) void this.#follow(burrow)
  }

  /** Restarts the program when it has not answered several times. Does nothing while the replica sleeps. */
  async check(): Promise<void> {
    const { health } = this.#options.settings()
    const burrow = this.#state === 'ready' && health !== undefined ? this.#runningBurrow() : undefined
    // The check before may still wait for its answer.
    if (health === undefined || burrow === undefined || this.#isChecked) return
    this.#isChecked = true
    try {
      const { path, timeoutMs = CHECK_TIMEOUT_MS } = health
      await checkHealth(burrow.guest, { port: this.port, path, timeoutMs })
      this.#failedChecks = 0
    } catch (error) {
      // It fell asleep meanwhile.
      if (this.#runningBurrow() !== burrow) return
      this.#failedChecks += 1
      this.say(`health check failed: ${error instanceof Error ? error.message : String(error)}`)
      if (this.#failedChecks < (health.failures ?? 3)) return
      this.#failedChecks = 0
      this.say('the program is ended because it does not answer')
      await this.#kill(burrow.guest)
    } finally {
      this.#isChecked = false
    }
  }

  /** A line of the server in the log of the service. */
  say(text: string): void {
    const { version, sandboxId } = this.#row
    this.#options.log.add({ sandboxId, version, stream: 'system', text, processId: '', eventSeq: -1 })
  }

  #firstSeqOf(processId: string): number {
    return processId === this.#options.program?.processId ? this.#options.firstEventSeq : -1
  }

  /** The newest process of the program that runs. A sandbox that returned to its last snapshot has an older one. */
  async #runningProcess(guest: Guest): Promise<string | undefined> {
    const processes = await guest.processes.list()
    const running = new Set(
      processes.flatMap(({ processId, state }) => (state === 'running' ? processId : [])),
    )
    return this.#row.processIds.findLast((id) => running.has(id))
  }

  async #kill(guest: Guest): Promise<void> {
    const processId = await this.#runningProcess(guest).catch(() => undefined)
    if (processId === undefined) return this.#ended('does not answer')
    // Its end is an event.
    await guest.processes.signal(processId, 'SIGKILL').catch(() => {})
  }

  #ended(how: string): void {
    if (this.#stop.signal.aborted || this.#state === 'restarting' || this.#state === 'failed') return
    const { program, settings } = this.#options
    this.say(`the program ${how}`)
    if (program === undefined) {
      this.#options.onDead(this)
      return
    }
    if (settings().restart === 'never') {
      this.#state = 'failed'
      return
    }
    if (performance.now() - this.#startedAtMs > LONG_MS) this.#delayMs = FIRST_DELAY_MS
    this.#restartSoon(program)
  }

  /** The program ended while it was not to start again. Does nothing while that is so. */
  restartIfFailed(): void {
    const { program, settings } = this.#options
    if (this.#state !== 'failed' || program === undefined || settings().restart === 'never') return
    this.#delayMs = FIRST_DELAY_MS
    this.#restartSoon(program)
  }

  #restartSoon(program: Program): void {
    this.#state = 'restarting'
    this.#ready = this.#newReady()
    void this.#restart(program)
  }

  async #restart(program: Program): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      this.say(`it starts again in ${this.#delayMs / 1000} s`)
      try {
        await sleep(this.#delayMs, undefined, { ref: false, signal })
        this.#delayMs = Math.min(2 * this.#delayMs, LAST_DELAY_MS)
        await this.#start(program)
        return
      } catch (error) {
        if (signal.aborted || hasErrorCode(error, 'not_found')) return
        this.say(`it could not be started: ${error instanceof Error ? error.message : String(error)}`)
      }
    }
  }

  async #start({ args, env, cwd, user }: Program): Promise<void> {
    const { sandbox, port } = this
    const { signal } = this.#stop
    using _awake = sandbox.hold('the service starts', START_TIMEOUT_MS)
    await sandbox.use({ cause: 'process', what: 'starting a service', signal }, async (guest) => {
      const processId = await guest.processes.start({ args, env, cwd, user })
      const processIds = [...this.#row.processIds, processId].slice(-PROCESSES_KEPT)
      this.#put({ ...this.#row, processIds, restarts: this.#row.restarts + 1 })
    })
    const burrow = sandbox.runningBurrow()
    if (burrow === undefined) throw new DormouseError('service_unavailable', 'the sandbox went to sleep')
    await burrow.guest.ports
      .wait(port, { timeoutMs: START_TIMEOUT_MS, signal })
      .catch(async (error: unknown) => {
        await this.#kill(burrow.guest)
        throw error
      })
    this.setReady()
    this.say('the program runs again')
    void this.#follow(burrow)
  }

  #newReady(): Promise<void> {
    return new Promise((resolve) => {
      this.#setReady = resolve
    })
  }

  #put(row: ReplicaRow): void {
    this.#options.rows.putReplica(row)
    this.#row = row
  }

  #hasFailed(): boolean {
    return this.#state === 'failed'
  }

  #unavailable(): DormouseError {
    return new DormouseError(
      'service_unavailable',
      'The program of the service has ended and is not restarted.',
      {
        hint: '`dormouse service logs NAME` shows why it ended, and `service update NAME --restart always` starts it again.',
      },
    )
  }
}

function describeExit({ exitCode, signal, outOfMemory }: ProgramExit): string {
  if (outOfMemory !== undefined) return `was killed: ${outOfMemory}`
  return signal === undefined ? `ended with exit code ${exitCode}` : `was ended by ${signal}`
}
