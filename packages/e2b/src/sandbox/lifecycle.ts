import { randomBytes } from 'node:crypto'
import type { Backend, BackendSandbox, Caller } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import type { SandboxRecord } from './record.ts'
import { expiryOf, stateOf } from './state.ts'

/** Used for a sandbox that Dormouse's own tools created and that a client of E2B connects to. */
const ADOPTED = {
  template: '',
  onTimeout: 'pause',
  autoResume: true,
  isPaused: false,
  keepsMemory: true,
} as const

const newToken = () => randomBytes(32).toString('hex')

export interface NewRecord {
  readonly template: string
  readonly timeoutMs: number
  readonly isSecure: boolean
  readonly hasPublicTraffic: boolean
  readonly onTimeout: 'kill' | 'pause'
  readonly autoResume: boolean
  readonly keepsMemory: boolean
  readonly network?: Readonly<Record<string, unknown>> | undefined
}

/** What E2B's clients do to a sandbox over its life, in the words of Dormouse. */
export class Lifecycle {
  readonly #backend: Pick<Backend, 'records' | 'sandboxes'>

  constructor(backend: Pick<Backend, 'records' | 'sandboxes'>) {
    this.#backend = backend
  }

  /** A record for a sandbox that is about to exist. */
  newRecord(request: NewRecord): Omit<SandboxRecord, 'sandboxId'> {
    const { template, timeoutMs, onTimeout, autoResume, keepsMemory, network } = request
    const startedAtMs = Date.now()
    return {
      ...{ template, timeoutMs, startedAtMs, endAtMs: startedAtMs + timeoutMs },
      ...{ onTimeout, autoResume, keepsMemory, network, isPaused: false },
      accessToken: request.isSecure ? newToken() : undefined,
      trafficToken: request.hasPublicTraffic ? undefined : newToken(),
    }
  }

  /** The record of a child: it has the options of its parent, and tokens and times of its own. */
  async fork(parent: SandboxRecord, child: BackendSandbox, timeoutMs: number): Promise<SandboxRecord> {
    const startedAtMs = Date.now()
    const record = {
      ...parent,
      ...{ sandboxId: child.id, timeoutMs, startedAtMs, endAtMs: startedAtMs + timeoutMs, isPaused: false },
      accessToken: parent.accessToken && newToken(),
      trafficToken: parent.trafficToken && newToken(),
    }
    return this.#write(child, record)
  }

  /** Throws `ApiError` 404. */
  get(id: string, caller: Caller): { sandbox: BackendSandbox; record: SandboxRecord } {
    const sandbox = this.#backend.sandboxes.get(id, caller)
    const record = this.#backend.records.find(sandbox.id)
    if (record === undefined)
      throw new ApiError(404, `Sandbox "${id}" doesn't exist or you don't have access to it`)
    return { sandbox, record }
  }

  /** Resumes a paused sandbox; extends the time of a running one, and never shortens it. */
  async connect(
    id: string,
    caller: Caller,
    { timeoutMs, reboots }: { timeoutMs: number; reboots: boolean },
  ): Promise<{ sandbox: BackendSandbox; record: SandboxRecord; isResumed: boolean }> {
    const sandbox = this.#backend.sandboxes.get(id, caller)
    const record = this.#backend.records.find(sandbox.id) ?? this.#adopt(sandbox, timeoutMs)
    const isResumed = stateOf(record, sandbox.view(), Date.now()) === 'paused'
    // Its time was over, and its client asked for a pause without memory then.
    const isOverWithoutMemory = !record.isPaused && !record.keepsMemory
    const isOld = isResumed && (reboots || record.isRebooting === true || isOverWithoutMemory)
    if (isOld) await reboot(sandbox)
    else if (isResumed) await sandbox.resume('resume')
    // After the wake, which may take a part of a short time.
    const endAtMs = Math.max(isResumed ? 0 : record.endAtMs, Date.now() + timeoutMs)
    const changed = { ...record, timeoutMs, endAtMs, isPaused: false, isRebooting: undefined }
    return { sandbox, record: await this.#write(sandbox, changed), isResumed }
  }

  /** Throws `ApiError` 409 when it is paused already. */
  async pause(id: string, caller: Caller, { keepsMemory }: { keepsMemory: boolean }): Promise<void> {
    const { sandbox, record } = this.get(id, caller)
    if (stateOf(record, sandbox.view(), Date.now()) === 'paused')
      throw new ApiError(409, `Error pausing sandbox - sandbox '${id}' is already paused`)
    await sandbox.standby({ tier: 'frozen', cause: 'asked' })
    this.#backend.records.put({ ...record, isPaused: true, isRebooting: !keepsMemory || undefined })
    // A paused sandbox is kept until it is killed.
    await sandbox.update({ expires: undefined })
  }

  async setTimeout(id: string, caller: Caller, timeoutMs: number): Promise<void> {
    const { sandbox, record } = this.get(id, caller)
    this.#requireRunning(sandbox, record)
    await this.#write(sandbox, { ...record, timeoutMs, endAtMs: Date.now() + timeoutMs })
  }

  async refresh(id: string, caller: Caller, durationMs: number): Promise<void> {
    const { sandbox, record } = this.get(id, caller)
    this.#requireRunning(sandbox, record)
    const endAtMs = Math.max(record.endAtMs, Date.now() + durationMs)
    await this.#write(sandbox, { ...record, endAtMs })
  }

  /**
   * The sandbox that a request from outside is for, after it has been resumed if its lifecycle says so. Undefined: there
   * is none, or it is paused.
   */
  async reach(id: string): Promise<{ sandbox: BackendSandbox; record: SandboxRecord } | undefined> {
    const record = this.#backend.records.find(id)
    if (record === undefined) return undefined
    const sandbox = this.#backend.sandboxes.get(id, { keyId: 'server', isAdmin: true })
    if (stateOf(record, sandbox.view(), Date.now()) === 'running') return { sandbox, record }
    if (!record.autoResume || record.isRebooting === true) return undefined
    await sandbox.resume('resume')
    const changed = { ...record, endAtMs: Date.now() + record.timeoutMs, isPaused: false }
    return { sandbox, record: await this.#write(sandbox, changed) }
  }

  #adopt(sandbox: BackendSandbox, timeoutMs: number): SandboxRecord {
    const { template, createdAt } = sandbox.view()
    return {
      ...ADOPTED,
      sandboxId: sandbox.id,
      template,
      timeoutMs,
      startedAtMs: Date.parse(createdAt),
      endAtMs: Date.now() + timeoutMs,
      accessToken: newToken(),
    }
  }

  #requireRunning(sandbox: BackendSandbox, record: SandboxRecord): void {
    if (stateOf(record, sandbox.view(), Date.now()) === 'running') return
    throw new ApiError(404, `Sandbox "${sandbox.id}" not found: it is paused`)
  }

  async #write(sandbox: BackendSandbox, record: SandboxRecord): Promise<SandboxRecord> {
    this.#backend.records.put(record)
    await sandbox.update({ expires: expiryOf(record) })
    return record
  }
}

/** Boots on the files of the sandbox; its processes are gone. */
async function reboot(sandbox: BackendSandbox): Promise<void> {
  const { id } = await sandbox.snapshot({ name: undefined, kind: 'files' })
  await sandbox.rollback(id)
}
