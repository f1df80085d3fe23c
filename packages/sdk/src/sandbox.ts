import { Contexts } from './contexts.ts'
import type {
  CreateSandboxBody,
  CreateSnapshotBody,
  ForkAnswer,
  ForkBody,
  HoldAnswer,
  LedgerPageAnswer,
  NetworkBody,
  NetworkMode,
  NetworkReportAnswer,
  SandboxMetricsAnswer,
  StandbyBody,
  UpdateSandboxBody,
  UsageAnswer,
  WhyAnswer,
} from './contract/index.ts'
import {
  clientOf,
  type Dormouse,
  type DormouseOptions,
  type ListSandboxes,
  type SandboxInfo,
  type UsageOptions,
} from './dormouse.ts'
import { hasCode } from './error.ts'
import type { Candidate, Candidates } from './fan-out/candidates.ts'
import { type MapOptions, type MapOutcome, type MapWork, mapOverForks } from './fan-out/map.ts'
import { type RaceOptions, type RaceOutcome, raceForks } from './fan-out/race.ts'
import { Files } from './files/files.ts'
import { Pages } from './http/pages.ts'
import type { Abortable } from './options.ts'
import { type Port, Ports } from './ports.ts'
import { Commands } from './processes/commands.ts'
import { collectRun } from './runs/collect-run.ts'
import type { RunEvent, RunOptions, RunResult, RunStreamOptions } from './runs/run-options.ts'
import { Runs } from './runs/runs.ts'
import { streamRun } from './runs/stream-run.ts'
import type { Snapshot } from './snapshots.ts'
import { Ptys } from './terminals/ptys.ts'

/** A client, or the options to make one. */
export type ClientOptions = DormouseOptions & { readonly client?: Dormouse | undefined } & Abortable

export type CreateOptions = Omit<CreateSandboxBody, 'getOrCreate'>
export type LedgerEntry = LedgerPageAnswer['items'][number]
export type NetworkOptions = NetworkBody
export type NetworkReport = NetworkReportAnswer
export type { NetworkMode }

/**
 * A Linux machine that never forgets. Without work it goes to sleep; any call wakes it, with its variables, threads,
 * processes and files as they were.
 */
export class Sandbox {
  readonly id: string
  readonly client: Dormouse
  readonly files: Files
  readonly commands: Commands
  readonly pty: Ptys
  readonly contexts: Contexts
  readonly ports: Ports
  readonly runs: Runs
  readonly #path: string
  #info: SandboxInfo

  /** Made by `create`, `connect`, `resume`, `list` and `fork`. */
  constructor(client: Dormouse, info: SandboxInfo) {
    this.client = client
    this.id = info.id
    this.#info = info
    this.#path = `/v1/sandboxes/${info.id}`
    this.files = new Files(client.http, this.#path)
    this.commands = new Commands(client.http, this.#path)
    this.pty = new Ptys(client.http, this.#path, client.socket)
    this.contexts = new Contexts(client.http, this.#path)
    this.ports = new Ports(client.http, this.#path)
    this.runs = new Runs(client.http, this.#path)
  }

  /** Creates a sandbox. It stays until it is deleted, unless it is `ephemeral` or `expires`. */
  static async create(options: CreateOptions = {}, which: ClientOptions = {}): Promise<Sandbox> {
    const client = clientFrom(which)
    return new Sandbox(client, await client.createSandbox(options, which))
  }

  /** Returns the sandbox of that name, unchanged, or creates one. */
  static async getOrCreate(
    name: string,
    options: Omit<CreateOptions, 'name'> = {},
    which: ClientOptions = {},
  ): Promise<Sandbox> {
    const client = clientFrom(which)
    return new Sandbox(client, await client.createSandbox({ ...options, name, getOrCreate: true }, which))
  }

  /** Returns a sandbox that exists, by its id or name. Does not wake it. */
  static async connect(idOrName: string, which: ClientOptions = {}): Promise<Sandbox> {
    const client = clientFrom(which)
    return new Sandbox(client, await client.getSandbox(idOrName, which))
  }

  /** Wakes and returns a sandbox by the id that `idle()` returned. */
  static async resume(idOrName: string, which: ClientOptions = {}): Promise<Sandbox> {
    const sandbox = await Sandbox.connect(idOrName, which)
    await sandbox.resume(which)
    return sandbox
  }

  /** `for await (const sandbox of Sandbox.list())`, or `await Sandbox.list().all()`. */
  static list({ signal, ...filter }: ListSandboxes = {}, which: ClientOptions = {}): Pages<Sandbox> {
    const client = clientFrom(which)
    return client
      .listSandboxes({ ...filter, signal: signal ?? which.signal })
      .map((info) => new Sandbox(client, info))
  }

  get name(): string | undefined {
    return this.#info.name
  }

  /** As of the last answer; `refresh()` asks the server. */
  get info(): SandboxInfo {
    return this.#info
  }

  /** The same as `info`. */
  toJSON(): SandboxInfo {
    return this.#info
  }

  /** `console.log` shows `info`, without the client. */
  [Symbol.for('nodejs.util.inspect.custom')](
    _depth: number,
    options: object,
    inspect?: (value: unknown, options: object) => string,
  ): unknown {
    return inspect === undefined ? this.#info : `Sandbox ${inspect(this.#info, options)}`
  }

  async refresh(options: Abortable = {}): Promise<SandboxInfo> {
    return this.#note(await this.client.getSandbox(this.id, options))
  }

  /** Runs code in a REPL that keeps its variables. An exception in the code is in `error` of the result. */
  runCode(code: string, options: RunOptions = {}): Promise<RunResult> {
    return collectRun(this.runCodeStream(code, options), options)
  }

  /** Like `runCode`, event by event. Leaving the loop early does not end the run; aborting the signal interrupts it. */
  runCodeStream(code: string, options: RunStreamOptions = {}): AsyncGenerator<RunEvent, void, undefined> {
    return streamRun(this.client.http, this.#path, code, options)
  }

  /** Makes children with the memory, processes and files of this sandbox. This sandbox continues. */
  async fork(
    count = 1,
    { signal, ...options }: Abortable & Pick<ForkBody, 'reseed'> = {},
  ): Promise<Sandbox[]> {
    const { children } = await this.#post<ForkAnswer>('/fork', { count, ...options }, { signal })
    return children.map((info) => new Sandbox(this.client, info))
  }

  /** Puts it to sleep and returns its id for `Sandbox.resume()`. Tier `stored`: on disk only. */
  async idle({ signal, ...options }: Abortable & StandbyBody = {}): Promise<string> {
    this.#note(await this.#post<SandboxInfo>('/standby', options, { signal, repeatable: true }))
    return this.id
  }

  /** Wakes it. Other calls wake it by themselves. */
  async resume({ signal }: Abortable = {}): Promise<this> {
    this.#note(await this.#post<SandboxInfo>('/resume', undefined, { signal, repeatable: true }))
    return this
  }

  /** Saves its state; it continues. */
  snapshot({ signal, ...options }: Abortable & CreateSnapshotBody = {}): Promise<Snapshot> {
    return this.#post('/snapshots', options, { signal })
  }

  /** Puts it back to one of its snapshots, under the same id. Later changes are lost. */
  async rollback(snapshot: string | Pick<Snapshot, 'id'>, { signal }: Abortable = {}): Promise<this> {
    const snapshotId = typeof snapshot === 'string' ? snapshot : snapshot.id
    this.#note(await this.#post<SandboxInfo>('/rollback', { snapshotId }, { signal }))
    return this
  }

  /** Changes its name, metadata, time-outs, limits and what it may reach. Does not wake it. */
  async update({ signal, ...change }: Abortable & UpdateSandboxBody): Promise<SandboxInfo> {
    const call = { method: 'PATCH', path: this.#path, json: change, repeatable: true } as const
    return this.#note(await this.client.http.json<SandboxInfo>({ ...call, signal }))
  }

  /** Keeps it awake for work that the server cannot see. */
  hold(what: string, forMs: number, { signal }: Abortable = {}): Promise<HoldAnswer> {
    return this.#post('/hold', { what, forMs }, { signal, repeatable: true })
  }

  /** Waits until a process inside listens on a port. Throws `port_closed` if none does in time. */
  waitForPort(port: number, options: Abortable & { readonly timeoutMs?: number } = {}): Promise<Port> {
    return this.ports.wait(port, options)
  }

  /** What keeps it awake, and when it will sleep. */
  why({ signal }: Abortable = {}): Promise<WhyAnswer> {
    return this.client.http.json({ path: `${this.#path}/why`, signal })
  }

  /** Every sleep and wake, with cause and latency, oldest first. */
  ledger({ after, signal }: Abortable & { after?: number } = {}): Pages<LedgerEntry> {
    const path = `${this.#path}/ledger`
    return new Pages((page) =>
      this.client.http.json<LedgerPageAnswer>({ path, query: { after, ...page }, signal }),
    )
  }

  /** What it uses now: memory, CPU, processes. `memory` adds how much memory is its own. Does not wake it. */
  metrics({ memory, signal }: Abortable & { memory?: boolean } = {}): Promise<SandboxMetricsAnswer> {
    return this.client.http.json({ path: `${this.#path}/metrics`, query: { memory }, signal })
  }

  /** What it may reach, what it reached, and what was refused. Does not wake it. `update` changes the policy. */
  network({ signal }: Abortable = {}): Promise<NetworkReport> {
    return this.client.http.json({ path: `${this.#path}/network`, signal })
  }

  /** What it used between `from` and `to`. Default: this month. */
  usage(options: Omit<UsageOptions, 'sandboxId'> = {}): Promise<UsageAnswer> {
    return this.client.usage({ ...options, sandboxId: this.id })
  }

  /**
   * Best of n: runs each candidate in its own fork, scores them, keeps the best child and deletes the others. This
   * sandbox does not change.
   */
  race<Value = RunResult>(
    candidates: number | readonly Candidate<Value>[],
    options: RaceOptions<Value>,
  ): Promise<RaceOutcome<Value>>
  /** The same with n children: a shorter list is repeated, a function returns the candidate of an index. */
  race<Value = RunResult>(
    n: number,
    candidates: Candidates<Value>,
    options: Omit<RaceOptions<Value>, 'run'>,
  ): Promise<RaceOutcome<Value>>
  race<Value>(
    wanted: number | readonly Candidate<Value>[],
    given: Candidates<Value> | RaceOptions<Value>,
    options?: RaceOptions<Value>,
  ): Promise<RaceOutcome<Value>> {
    if (options === undefined) return raceForks(this, wanted, undefined, given as RaceOptions<Value>)
    return raceForks(this, wanted, given as Candidates<Value>, options)
  }

  /**
   * Runs code, or a function, once per input, each in its own fork, which is deleted afterwards. Outcomes are in the
   * order of the inputs; a failure does not stop the others.
   */
  map<Input, Value = RunResult>(
    inputs: Iterable<Input>,
    work: MapWork<Input, Value>,
    options: MapOptions = {},
  ): Promise<MapOutcome<Input, Value>[]> {
    return mapOverForks(this, inputs, work, options)
  }

  /** Deletes it with all its state. */
  delete({ signal }: Abortable = {}): Promise<void> {
    return this.client.http.delete({ path: this.#path, signal })
  }

  /** Deletes it if it is ephemeral. `await using` calls this at the end of its block. */
  async close(options: Abortable = {}): Promise<void> {
    if (!this.#info.ephemeral) return
    await this.delete(options).catch((error: unknown) => {
      // The server may have deleted it already.
      if (!hasCode(error, 'not_found')) throw error
    })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #note(info: SandboxInfo): SandboxInfo {
    this.#info = info
    return info
  }

  #post<Answer>(
    what: string,
    json: object | undefined,
    options: Abortable & { repeatable?: boolean },
  ): Promise<Answer> {
    return this.client.http.json({ method: 'POST', path: this.#path + what, json, ...options })
  }
}

function clientFrom({ signal: _signal, ...options }: ClientOptions): Dormouse {
  return clientOf(options)
}
