import { hasErrorCode, type JobId, type SandboxId } from '@dormouse/contracts'
import { DEFAULT_CONNECTIONS, DEFAULT_TEMPLATE } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Log } from '../log.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'
import type { NetworkPolicy, SandboxLimits } from '../store/sandbox-rows.ts'
import type { JobRow } from './job-rows.ts'
import { ABANDONED_MS } from './limits.ts'
import type { TaskRows } from './task-rows.ts'

export interface JobSandboxDependencies {
  readonly sandboxes: SandboxCalls & { find(id: string): Sandbox | undefined }
  readonly tasks: Pick<TaskRows, 'forgetSandbox' | 'sandboxes'>
  readonly defaultLimits: (caller: Caller) => SandboxLimits
  readonly defaultNetwork: NetworkPolicy
  readonly log: Log
}

/** Creates, finds and deletes the sandboxes that tasks run in. */
export class JobSandboxes {
  readonly #deps: JobSandboxDependencies
  /** Limits that snapshots of jobs bring with them. */
  readonly #limits = new Map<JobId, Partial<SandboxLimits>>()
  /** Of sandboxes that are gone for callers. */
  readonly #removals = new Set<Promise<void>>()

  constructor(deps: JobSandboxDependencies) {
    this.#deps = deps
  }

  exists(id: SandboxId): boolean {
    return this.#deps.sandboxes.find(id)?.isDeleted === false
  }

  /** The sandbox with this id, awake. Created if it does not exist. */
  async open(job: JobRow, id: SandboxId, signal: AbortSignal): Promise<Sandbox> {
    const { sandboxes, defaultLimits, defaultNetwork } = this.#deps
    const found = sandboxes.find(id)
    if (found !== undefined && !found.isDeleted) {
      await found.resume('run')
      return found
    }
    const { request, snapshotId } = job
    const caller = callerOf(job)
    await sandboxes.create(
      {
        template: request.template ?? DEFAULT_TEMPLATE,
        isolation: request.isolation,
        snapshotId,
        env: request.env ?? {},
        volumes: request.volumes ?? [],
        secrets: request.secrets ?? [],
        network: request.network ?? defaultNetwork,
        limits: { ...defaultLimits(caller), ...(await this.#limitsOf(job)), ...request.limits },
        ...{ name: undefined, metadata: { ...request.metadata, job: job.id }, ephemeral: true },
        ...{ idleTimeoutMs: 0, storeAfterMs: 0, maxBackgroundMs: 0 },
        ...{
          wakeOnTimer: false,
          atMemoryLimit: 'kill',
          checkpointEveryMs: 0,
          connections: DEFAULT_CONNECTIONS,
        },
        expires: { idleMs: ABANDONED_MS, action: 'delete' },
      },
      caller,
      signal,
      { id },
    )
    return sandboxes.find(id) as Sandbox
  }

  /** Resolves when the sandbox is gone for callers. Never rejects: it expires at the latest. */
  async remove(id: SandboxId): Promise<void> {
    const { sandboxes, tasks, log } = this.#deps
    try {
      const sandbox = sandboxes.find(id)
      await sandbox?.deleteSoon()
      tasks.forgetSandbox(id)
      if (sandbox !== undefined) this.#follow(sandbox.delete())
    } catch (err) {
      log.warn({ err, sandboxId: id }, 'a sandbox of a job could not be deleted yet')
    }
  }

  #follow(removal: Promise<void>): void {
    // The sandbox itself tries again, and reports it.
    const over = removal.catch(() => {}).finally(() => this.#removals.delete(over))
    this.#removals.add(over)
  }

  /**
   * Deletes what its sandboxes started from, if that was made for the job. Waits until they are removed: they need the
   * snapshot, and a caller that hears of the end of a job finds nothing of it.
   */
  async removeOrigin(job: JobRow): Promise<void> {
    this.#limits.delete(job.id)
    await Promise.all(this.#removals)
    if (!job.ownsSnapshot || job.snapshotId === undefined) return
    try {
      await this.#deps.sandboxes.deleteSnapshot(job.snapshotId, callerOf(job))
    } catch (err) {
      if (!hasErrorCode(err, 'not_found'))
        this.#deps.log.warn({ err, jobId: job.id }, 'the snapshot of a job could not be deleted')
    }
  }

  async #limitsOf(job: JobRow): Promise<Partial<SandboxLimits>> {
    if (job.snapshotId === undefined) return {}
    const known = this.#limits.get(job.id)
    if (known !== undefined) return known
    const limits = await this.#deps.sandboxes.limitsOfSnapshot(job.snapshotId, callerOf(job))
    this.#limits.set(job.id, limits)
    return limits
  }
}

/** A job acts with the rights of the key that created it, and never as an admin. */
export function callerOf({ owner }: Pick<JobRow, 'owner'>): Caller {
  return { keyId: owner, isAdmin: false }
}
