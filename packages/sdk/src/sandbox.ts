// `Symbol.asyncDispose` is in no library of TypeScript before ESNext; programs get it with this package.
/// <reference lib="esnext.disposable" preserve="true" />
import { Contexts } from './contexts.ts'
import type {
  CreateSandboxBody,
  CreateSnapshotBody,
  FamilyAnswer,
  ForkAnswer,
  ForkBody,
  HoldAnswer,
  LedgerPageAnswer,
  MovedAnswer,
  NetworkBody,
  NetworkMode,
  NetworkReportAnswer,
  PromoteBody,
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
import type { Children } from './fan-out/children.ts'
import { type MapOptions, type MapOutcome, type MapWork, mapOverForks } from './fan-out/map.ts'
import { type RaceOptions, type RaceOutcome, raceForks } from './fan-out/race.ts'
import { Files } from './files/files.ts'
import { Pages } from './http/pages.ts'
import type { Abortable, CallOptions } from './options.ts'
import { type Port, Ports } from './ports.ts'
import { Commands } from './processes/commands.ts'
import { answerRun } from './runs/answer-run.ts'
import { collectRun } from './runs/collect-run.ts'
import type { RunEvent } from './runs/run-event.ts'
import type { RunOptions, RunStreamOptions } from './runs/run-options.ts'
import type { RunResult } from './runs/run-result.ts'
import { Runs } from './runs/runs.ts'
import { streamRun } from './runs/stream-run.ts'
import { type Snapshot, type SnapshotRef, snapshotRef } from './snapshots.ts'
import { Ptys } from './terminals/ptys.ts'
import { Variables } from './variables.ts'

/** A client, or the options to make one. */
export type ClientOptions = DormouseOptions & { readonly client?: Dormouse | undefined } & CallOptions

export interface CreateOptions extends Omit<CreateSandboxBody, 'getOrCreate' | 'snapshot'> {
  /** Starts from a snapshot: its id, `SANDBOX/NAME`, or the snapshot itself. */
  readonly snapshot?: SnapshotRef
}
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
  readonly variables: Variables
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
    this.variables = new Variables(client.http, this.#path)
    this.ports = new Ports(client.http, this.#path)
    this.runs = new Runs(client.http, this.#path)
  }

  /** Creates a sandbox. It stays until it is deleted, unless it is `ephemeral` or `expires`. */
  static async create(options: CreateOptions = {}, which: ClientOptions = {}): Promise<Sandbox> {
    const client = clientFrom(which)
    return new Sandbox(client, await client.createSandbox(createBody(options), which))
  }

  /** Returns the sandbox of that name, unchanged, or creates one. */
  static async getOrCreate(
    name: string,
    options: Omit<CreateOptions, 'name'> = {},
    which: ClientOptions = {},
  ): Promise<Sandbox> {
    const client = clientFrom(which)
    const body = { ...createBody(options), name, getOrCreate: true }
    return new Sandbox(client, await client.createSandbox(body, which))
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
  static list(
    { signal, timeoutMs, ...filter }: ListSandboxes = {},
    which: ClientOptions = {},
  ): Pages<Sandbox> {
    const client = clientFrom(which)
    return client
      .listSandboxes({ ...filter, signal: signal ?? which.signal, timeoutMs: timeoutMs ?? which.timeoutMs })
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

  async refresh(options: CallOptions = {}): Promise<SandboxInfo> {
    return this.#note(await this.client.getSandbox(this.id, options))
  }

  /** Runs code in a REPL that keeps its variables. An exception in the code is in `error` of the result. */
  runCode(code: string, options: RunOptions = {}): Promise<RunResult> {
    const { onInput } = options
    const events = this.runCodeStream(code, { ...options, input: onInput !== undefined || undefined })
    return collectRun(onInput === undefined ? events : answerRun(events, this.runs, onInput), options)
  }

  /** Like `runCode`, event by event. Leaving the loop early does not end the run; aborting the signal interrupts it. */
  runCodeStream(code: string, options: RunStreamOptions = {}): AsyncGenerator<RunEvent, void, undefined> {
    return streamRun(this.client.http, this.#path, code, options)
  }

  /**
   * Makes children with the memory, processes and files of this sandbox. This sandbox continues. `fork(2)` is typed as
   * a tuple: `const [left, right] = await sandbox.fork(2)`.
   */
  async fork<const Count extends number = 1>(
    count?: Count,
    { signal, timeoutMs, ...options }: CallOptions & Pick<ForkBody, 'reseed'> = {},
  ): Promise<Children<Count>> {
    const body = { count: count ?? 1, ...options }
    const { children } = await this.#post<ForkAnswer>('/fork', body, { signal, timeoutMs })
    return children.map((info) => new Sandbox(this.client, info)) as Children<Count>
  }

  /** Puts it to sleep and returns its id for `Sandbox.resume()`. Tier `stored`: on disk only. */
  async idle({ signal, timeoutMs, ...options }: CallOptions & StandbyBody = {}): Promise<string> {
    this.#note(await this.#post<SandboxInfo>('/standby', options, { signal, timeoutMs, repeatable: true }))
    return this.id
  }

  /** Moves it to another node of the cluster. It sleeps, and wakes there with the next call. */
  move(node: string, { signal, timeoutMs }: CallOptions = {}): Promise<MovedAnswer> {
    return this.#post<MovedAnswer>('/move', { node }, { signal, timeoutMs, repeatable: true })
  }

  /** Wakes it. Other calls wake it by themselves. */
  async resume({ signal, timeoutMs }: CallOptions = {}): Promise<this> {
    this.#note(await this.#post<SandboxInfo>('/resume', undefined, { signal, timeoutMs, repeatable: true }))
    return this
  }

  /** Saves its state; it continues. */
  snapshot({ signal, timeoutMs, ...options }: CallOptions & CreateSnapshotBody = {}): Promise<Snapshot> {
    return this.#post('/snapshots', options, { signal, timeoutMs })
  }

  /**
   * Puts it back to a snapshot, under the same id. Later changes are lost. The snapshot is given by id or name, or as
   * `SANDBOX/NAME`: one of this sandbox, of its forks, or of what it was forked from.
   */
  async rollback(snapshot: SnapshotRef, { signal, timeoutMs }: CallOptions = {}): Promise<this> {
    const snapshotId = snapshotRef(snapshot)
    this.#note(await this.#post<SandboxInfo>('/rollback', { snapshotId }, { signal, timeoutMs }))
    return this
  }

  /**
   * The sandbox that this one was forked from continues as this one, under its own id and name; what it did since the
   * fork is lost. Deletes this one, unless `keep`. Returns the parent.
   */
  async promote({ signal, timeoutMs, ...options }: CallOptions & PromoteBody = {}): Promise<Sandbox> {
    return new Sandbox(this.client, await this.#post<SandboxInfo>('/promote', options, { signal, timeoutMs }))
  }

  /** Changes its name, metadata, time-outs, limits and what it may reach. Does not wake it. */
  async update({ signal, timeoutMs, ...change }: CallOptions & UpdateSandboxBody): Promise<SandboxInfo> {
    const call = { method: 'PATCH', path: this.#path, json: change, repeatable: true } as const
    return this.#note(await this.client.http.json<SandboxInfo>({ ...call, signal, timeoutMs }))
  }

  /** Keeps it awake for work that the server cannot see. */
  hold(what: string, forMs: number, { signal, timeoutMs }: CallOptions = {}): Promise<HoldAnswer> {
    return this.#post('/hold', { what, forMs }, { signal, timeoutMs, repeatable: true })
  }

  /** Waits until a process inside listens on a port. Throws `port_closed` if none does in time. */
  waitForPort(port: number, options: Abortable & { readonly timeoutMs?: number } = {}): Promise<Port> {
    return this.ports.wait(port, options)
  }

  /** What keeps it awake, and when it will sleep. */
  why({ signal, timeoutMs }: CallOptions = {}): Promise<WhyAnswer> {
    return this.client.http.json({ path: `${this.#path}/why`, signal, timeoutMs })
  }

  /** Every sleep and wake, with cause and latency, oldest first. */
  ledger({ after, signal, timeoutMs }: CallOptions & { after?: number } = {}): Pages<LedgerEntry> {
    const path = `${this.#path}/ledger`
    return new Pages((page) =>
      this.client.http.json<LedgerPageAnswer>({ path, query: { after, ...page }, signal, timeoutMs }),
    )
  }

  /** What it uses now: memory, CPU, processes. `memory` adds how much memory is its own. Does not wake it. */
  metrics({
    memory,
    signal,
    timeoutMs,
  }: CallOptions & { memory?: boolean } = {}): Promise<SandboxMetricsAnswer> {
    return this.client.http.json({ path: `${this.#path}/metrics`, query: { memory }, signal, timeoutMs })
  }

  /** What it may reach, what it reached, and what was refused. Does not wake it. `update` changes the policy. */
  network({ signal, timeoutMs }: CallOptions = {}): Promise<NetworkReport> {
    return this.client.http.json({ path: `${this.#path}/network`, signal, timeoutMs })
  }

  /** The forks and snapshots that share an ancestor with it, and their memory. Does not wake them. */
  tree({ signal, timeoutMs }: CallOptions = {}): Promise<FamilyAnswer> {
    return this.client.http.json({ path: `${this.#path}/tree`, signal, timeoutMs })
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
  delete({ signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.client.http.delete({ path: this.#path, signal, timeoutMs })
  }

  /** Deletes it if it is ephemeral. `await using` calls this at the end of its block. */
  async close(options: CallOptions = {}): Promise<void> {
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
    options: CallOptions & { repeatable?: boolean },
  ): Promise<Answer> {
    return this.client.http.json({ method: 'POST', path: this.#path + what, json, ...options })
  }
}

function createBody({ snapshot, ...options }: CreateOptions): CreateSandboxBody {
  return snapshot === undefined ? options : { ...options, snapshot: snapshotRef(snapshot) }
}

function clientFrom({ signal: _signal, ...options }: ClientOptions): Dormouse {
  return clientOf(options)
}
