import {
  DormouseError,
  newRunId,
  newSandboxId,
  newSnapshotId,
  type RunEvent,
  type RunResult,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import type { RunAnswer, SandboxAnswer, SnapshotAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../../access/caller.ts'
import type { Run, Runs, StartRunRequest } from '../../runs/runs.ts'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import type { SandboxCalls } from '../../sandbox/sandbox-service.ts'
import type { LedgerEntry } from '../../store/ledger-rows.ts'
import type { Page } from '../../store/page.ts'
import type { CreateSandbox } from '../../store/sandbox-rows.ts'

/** Just enough of a sandbox to see what HTTP makes of it: nothing runs, nothing sleeps. */

const NOW = '2030-01-01T00:00:00.000Z'

interface Held {
  view: SandboxAnswer
  readonly owner: string
  readonly holds: { what: string; untilMs: number | undefined }[]
}

export class FakeSandboxes implements SandboxCalls {
  readonly held = new Map<string, Held>()
  readonly snapshots = new Map<string, SnapshotAnswer>()
  /** Thrown by the next `create`. */
  refusal: unknown

  async create(request: CreateSandbox, caller: Caller, signal?: AbortSignal) {
    if (this.refusal !== undefined) throw this.refusal
    signal?.throwIfAborted()
    const taken = [...this.held.values()].find(
      ({ view, owner }) => view.name !== undefined && view.name === request.name && owner === caller.keyId,
    )
    if (taken !== undefined && request.getOrCreate === true) {
      return { sandbox: this.#sandbox(taken), isNew: false }
    }
    if (taken !== undefined) throw new DormouseError('name_taken', `the name "${request.name}" is taken`)
    const { env: _env, getOrCreate: _getOrCreate, snapshotId: _snapshotId, ...shown } = request
    const view: SandboxAnswer = {
      ...shown,
      isolation: shown.isolation ?? 'process',
      network: { ...shown.network, unavailable: undefined },
      id: newSandboxId(),
      state: 'running',
      tier: undefined,
      createdAt: NOW,
      lastActiveAt: NOW,
      stateSince: NOW,
      headSnapshotId: undefined,
      forkedFrom: undefined,
      lostSince: undefined,
      damage: undefined,
    }
    const held = { view, owner: caller.keyId, holds: [] }
    this.held.set(view.id, held)
    return { sandbox: this.#sandbox(held), isNew: true }
  }

  get(idOrName: string, caller: Caller): SandboxHandle {
    const held = [...this.held.values()].find(
      ({ view, owner }) =>
        (view.id === idOrName || view.name === idOrName) && (caller.isAdmin || owner === caller.keyId),
    )
    if (held === undefined) throw new DormouseError('not_found', `there is no sandbox "${idOrName}"`)
    return this.#sandbox(held)
  }

  list(query: Parameters<SandboxCalls['list']>[0], caller: Caller): Page<SandboxAnswer> {
    const views = [...this.held.values()]
      .filter(({ owner }) => caller.isAdmin || owner === caller.keyId)
      .map(({ view }) => view)
      .filter(
        (view) =>
          (query.state ?? view.state) === view.state &&
          (query.template ?? view.template) === view.template &&
          (query.name ?? view.name) === view.name &&
          Object.entries(query.metadata ?? {}).every(([key, value]) => view.metadata[key] === value),
      )
    const start = Number(query.cursor ?? 0)
    const end = start + query.limit
    return { items: views.slice(start, end), nextCursor: end < views.length ? String(end) : undefined }
  }

  listSnapshots({ sandboxId }: { sandboxId?: string }): Page<SnapshotAnswer> {
    const items = [...this.snapshots.values()].filter(
      (snapshot) => (sandboxId ?? snapshot.sandboxId) === snapshot.sandboxId,
    )
    return { items, nextCursor: undefined }
  }

  getSnapshot(id: string): SnapshotAnswer {
    const snapshot = this.snapshots.get(id)
    if (snapshot === undefined) throw new DormouseError('not_found', 'there is no such snapshot')
    return snapshot
  }

  async limitsOfSnapshot(id: string) {
    this.getSnapshot(id)
    return { memoryBytes: 1024 ** 3, cpus: 1, pids: 512 }
  }

  async bringSnapshot(): Promise<void> {}

  async verifySnapshot(id: string): Promise<SnapshotId> {
    return this.getSnapshot(id).id as SnapshotId
  }

  async deleteSnapshot(id: string): Promise<void> {
    this.getSnapshot(id)
    this.snapshots.delete(id)
  }

  #sandbox(held: Held): SandboxHandle {
    const change = (view: Partial<SandboxAnswer>) => {
      held.view = { ...held.view, ...view }
      return held.view
    }
    return {
      id: held.view.id as SandboxId,
      view: () => held.view,
      runningBurrow: () => undefined,
      thawNow: () => undefined,
      use: () => Promise.reject(new Error('not here')),
      guestNow: () => undefined,
      attach: nothingToFollow,
      attachRun: nothingToFollow,
      reader: READER,
      explainProcess: async (_processId, event) => event,
      hold: (what, untilMs) => {
        held.holds.push({ what, untilMs })
        return { [Symbol.dispose]: () => {} }
      },
      ...reports(held),
      standby: async ({ tier }) => change({ state: 'standby', tier }),
      resume: async () => change({ state: 'running', tier: undefined }),
      fork: async ({ count }) =>
        Array.from({ length: count }, () => {
          const view = { ...held.view, id: newSandboxId(), name: undefined, forkedFrom: held.view.id }
          this.held.set(view.id, { ...held, view, holds: [] })
          return view
        }),
      snapshot: async ({ name, kind }) => {
        const snapshot: SnapshotAnswer = {
          ...{ id: newSnapshotId(), sandboxId: held.view.id, name, kind, parentId: undefined },
          ...{ template: held.view.template, createdAt: NOW, isHead: false, bytes: { images: 1, memory: 2 } },
          damage: undefined,
        }
        this.snapshots.set(snapshot.id, snapshot)
        return snapshot
      },
      rollback: async (snapshotId) => {
        this.getSnapshot(snapshotId)
        return change({ headSnapshotId: snapshotId })
      },
      promote: async () => {
        const parent = this.held.get(held.view.forkedFrom ?? '')
        if (parent === undefined) throw new DormouseError('conflict', 'it has no parent')
        return parent.view
      },
      update: async ({ limits, network, ...policy }) =>
        change({
          ...policy,
          limits: { ...held.view.limits, ...limits },
          network: { ...held.view.network, ...network },
        }),
      delete: async () => void this.held.delete(held.view.id),
      deleteSoon: async () => void this.held.delete(held.view.id),
    }
  }
}

const READER: SandboxHandle['reader'] = {
  variables: async () => ({ isLive: false, contexts: [] }),
  files: {
    use: () => Promise.reject(new Error('not here')),
    attach: nothingToFollow,
  },
}

// biome-ignore lint/correctness/useYield: there is nothing to follow.
async function* nothingToFollow(): AsyncGenerator<never> {
  throw new Error('not here')
}

/** What a sandbox says of itself; the same each time. */
function reports(held: Held): Pick<SandboxHandle, 'network' | 'metrics' | 'why' | 'ledger'> {
  return {
    network: async () => ({
      ...held.view.network,
      counters: { connections: 1, denied: 2, names: 3, bytesOut: 4, bytesIn: 5 },
      denied: [],
      failedLookups: [],
    }),
    metrics: async ({ withMemory }) => ({
      ...{ sandboxId: held.view.id, state: held.view.state, tier: held.view.tier },
      usage: { memoryBytes: 1, memoryPeakBytes: 2, cpuMs: 3.5, pids: 4, oomKills: 0 },
      memory: withMemory ? { privateBytes: 5, sharedBytes: 6, proportionalBytes: 7, at: NOW } : undefined,
      network: { connections: 1, denied: 2, names: 3, bytesOut: 4, bytesIn: 5 },
    }),
    why: async () => ({
      ...{ state: held.view.state, tier: held.view.tier, summary: 'Awake: just used.' },
      work: [{ kind: 'recent', what: 'a request', since: NOW }],
      ...{ sleepsAt: NOW, storesAt: undefined, expiresAt: undefined, cannotSleep: undefined },
      damage: undefined,
    }),
    ledger: ({ after = -1, limit }) => {
      const all: LedgerEntry[] = [0, 1, 2].map((seq) => ({ seq, at: NOW, event: 'woke', cause: 'run' }))
      const items = all.filter(({ seq }) => seq > after).slice(0, limit)
      const last = items.at(-1)?.seq ?? 2
      return { items, nextCursor: last < 2 ? String(last) : undefined }
    },
  }
}

/** A run whose events the test writes. */
export class FakeRun implements Run {
  readonly runId = newRunId()
  readonly journal: RunEvent[] = []
  /** How many events readers have asked for. */
  pulled = 0
  failure: unknown
  readonly request: StartRunRequest
  readonly sandboxId: SandboxId
  #wake = resolvers()

  constructor(sandboxId: SandboxId, request: StartRunRequest) {
    this.sandboxId = sandboxId
    this.request = request
    this.emit({ type: 'start', runId: this.runId, context: request.context ?? 'default' })
  }

  emit(event: Record<string, unknown>): void {
    this.journal.push({ seq: this.journal.length, ...event } as RunEvent)
    this.#wake.resolve()
    this.#wake = resolvers()
  }

  fail(error: unknown): void {
    this.failure = error
    this.#wake.resolve()
  }

  get isOver(): boolean {
    return this.journal.at(-1)?.type === 'exit'
  }

  view(): RunAnswer {
    return {
      ...{
        runId: this.runId,
        sandboxId: this.sandboxId,
        context: 'default',
        language: this.request.language ?? 'python',
      },
      state: this.isOver ? 'finished' : 'running',
      ...{ startedAt: NOW, finishedAt: this.isOver ? NOW : undefined, exitCode: this.isOver ? 0 : undefined },
    }
  }

  async *events({ after = -1, follow = true, signal }: Parameters<Run['events']>[0] = {}) {
    const gone = resolvers()
    signal?.addEventListener('abort', () => gone.resolve(), { once: true })
    for (let next = after + 1; ; ) {
      if (signal?.aborted === true) return
      if (this.failure !== undefined) throw this.failure
      const event = this.journal[next]
      if (event !== undefined) {
        next += 1
        this.pulled += 1
        yield event
        if (event.type === 'exit') return
      } else if (!follow || this.isOver) return
      else await Promise.race([this.#wake.promise, gone.promise])
    }
  }

  async result(signal?: AbortSignal): Promise<RunResult> {
    for await (const event of this.events({ ...(signal === undefined ? {} : { signal }) })) {
      if (event.type !== 'exit') continue
      const { exitCode, durationMs } = event
      return {
        runId: this.runId,
        stdout: '',
        stderr: '',
        exitCode,
        results: [{ 'text/plain': '2' }],
        durationMs,
      }
    }
    throw new DormouseError('cancelled', 'the caller gave up')
  }
}

export const exitAtOnce = (run: FakeRun): void => run.emit({ type: 'exit', exitCode: 0, durationMs: 1 })

export class FakeRuns implements Runs {
  readonly started: FakeRun[] = []
  readonly interrupted: string[] = []
  /** What becomes of each new run. */
  script: (run: FakeRun) => void = exitAtOnce
  refusal: unknown

  async start(sandbox: SandboxHandle, request: StartRunRequest): Promise<FakeRun> {
    if (this.refusal !== undefined) throw this.refusal
    const run = new FakeRun(sandbox.id, request)
    this.started.push(run)
    this.script(run)
    return run
  }

  get(sandbox: SandboxHandle, runId: string): FakeRun {
    const run = this.started.find((one) => one.runId === runId && one.sandboxId === sandbox.id)
    if (run === undefined) throw new DormouseError('not_found', `there is no run "${runId}"`)
    return run
  }

  list(sandbox: SandboxHandle): Page<RunAnswer> {
    const items = this.started.filter(({ sandboxId }) => sandboxId === sandbox.id).map((run) => run.view())
    return { items, nextCursor: undefined }
  }

  async interrupt(_sandbox: SandboxHandle, runId: string) {
    this.interrupted.push(runId)
    return 'interrupting' as const
  }
}

function resolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}
