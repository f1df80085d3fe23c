import { pathPart } from './check.ts'
import type {
  ActivityAnswer,
  CreateSandboxBody,
  OverviewAnswer,
  SandboxAnswer,
  SandboxPageAnswer,
  SessionAnswer,
  SignInLinkAnswer,
  UsageAnswer,
} from './contract/index.ts'
import { Http, type HttpOptions, type Query } from './http/http.ts'
import { Pages } from './http/pages.ts'
import { Jobs } from './jobs.ts'
import { Nodes } from './nodes.ts'
import type { CallOptions } from './options.ts'
import { type RunOnceOptions, runOnce } from './runs/run-once.ts'
import type { RunResult } from './runs/run-result.ts'
import { Schedules } from './schedules.ts'
import { Scrub } from './scrub.ts'
import { Secrets } from './secrets.ts'
import { Server } from './server.ts'
import { type EventsOptions, followEvents, type SandboxActivity, type ServerEvent } from './server-events.ts'
import { Services } from './services.ts'
import { Snapshots } from './snapshots.ts'
import { SshKeys } from './ssh-keys.ts'
import { Templates } from './templates.ts'
import { findSocket, type SocketConstructor } from './terminals/socket.ts'
import { Volumes } from './volumes.ts'
import { Webhooks } from './webhooks.ts'

export interface DormouseOptions extends HttpOptions {
  /** The address. Default: DORMOUSE_URL, then the file of a local server, then http://127.0.0.1:7070. */
  readonly url?: string | undefined
  /** Default: DORMOUSE_API_KEY, then the file of a local server, for its own address only. */
  readonly apiKey?: string | undefined
  /** The data directory of a local server. Default: DORMOUSE_DATA, then /var/lib/dormouse. */
  readonly dataDir?: string | undefined
  /** How long one answer may take; not for runs and file transfers. Default: two minutes. 0: no limit. */
  readonly timeoutMs?: number | undefined
  /** Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** For terminals. Default: the global `WebSocket`; without one, terminals use HTTP. */
  readonly WebSocket?: SocketConstructor | undefined
}

/** A sandbox, as of the last answer about it. */
export type SandboxInfo = SandboxAnswer

export interface ListSandboxes extends CallOptions {
  readonly state?: SandboxInfo['state'] | undefined
  readonly template?: string | undefined
  readonly name?: string | undefined
  /** All must match. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
}

export interface UsageOptions extends CallOptions {
  /** ISO 8601. Default: the start of this month. */
  readonly from?: string | undefined
  /** Default: now. */
  readonly to?: string | undefined
  readonly sandboxId?: string | undefined
}

export interface Health {
  readonly status: 'ok' | 'starting' | 'stopping'
  readonly version: string
}

/** A server. `Sandbox.create()` makes a client by itself; make one to use several servers or settings. */
export class Dormouse {
  readonly templates: Templates
  readonly volumes: Volumes
  readonly services: Services
  readonly secrets: Secrets
  readonly snapshots: Snapshots
  readonly sshKeys: SshKeys
  readonly jobs: Jobs
  readonly schedules: Schedules
  readonly webhooks: Webhooks
  readonly nodes: Nodes
  readonly scrub: Scrub
  readonly server: Server
  /** For the other classes of this package. */
  readonly http: Http
  readonly socket: SocketConstructor | undefined

  constructor(options: DormouseOptions = {}) {
    this.http = new Http(options)
    this.socket = options.WebSocket ?? findSocket()
    this.templates = new Templates(this.http)
    this.volumes = new Volumes(this.http)
    this.services = new Services(this.http, this.templates)
    this.secrets = new Secrets(this.http)
    this.snapshots = new Snapshots(this.http)
    this.sshKeys = new SshKeys(this.http)
    this.jobs = new Jobs(this.http)
    this.schedules = new Schedules(this.http)
    this.webhooks = new Webhooks(this.http)
    this.nodes = new Nodes(this.http)
    this.scrub = new Scrub(this.http)
    this.server = new Server(this.http)
  }

  /** Whether the server is up. */
  health({ signal, timeoutMs }: CallOptions = {}): Promise<Health> {
    return this.http.json({ path: '/healthz', signal, timeoutMs })
  }

  /** What was used, per sandbox and in total. */
  usage({ signal, timeoutMs, ...query }: UsageOptions = {}): Promise<UsageAnswer> {
    return this.http.json({ path: '/v1/usage', query, signal, timeoutMs })
  }

  /** What happens to all sandboxes, from now on or after a `seq`. Wakes nothing. Ends when `signal` aborts. */
  events(options: EventsOptions = {}): AsyncGenerator<ServerEvent> {
    return followEvents(this.http, options)
  }

  /** How many sandboxes run and sleep, and what sleeping saves. */
  overview({ signal, timeoutMs }: CallOptions = {}): Promise<OverviewAnswer> {
    return this.http.json({ path: '/v1/overview', signal, timeoutMs })
  }

  /** What these sandboxes did in the last day, and do now. At most 100 ids. */
  async activity(
    ids: readonly string[],
    { signal, timeoutMs }: CallOptions = {},
  ): Promise<readonly SandboxActivity[]> {
    const query = { ids: ids.join(',') }
    const { items } = await this.http.json<ActivityAnswer>({ path: '/v1/activity', query, signal, timeoutMs })
    return items
  }

  /** The API key that this client uses, and what it may do. */
  session({ signal, timeoutMs }: CallOptions = {}): Promise<SessionAnswer> {
    return this.http.json({ path: '/v1/session', signal, timeoutMs })
  }

  /** A URL that signs a browser in to the page, once and within a minute. */
  async createSignInLink({ signal, timeoutMs }: CallOptions = {}): Promise<string> {
    const { path } = await this.http.json<SignInLinkAnswer>({
      method: 'POST',
      path: '/v1/session/links',
      json: {},
      repeatable: true,
      signal,
      timeoutMs,
    })
    return (await this.http.address()).url + path
  }

  /**
   * Runs untrusted code in a sandbox of its own, which the server deletes afterwards. Repeated only if nothing was
   * done: a connection lost in the middle throws `server_unreachable`.
   */
  runOnce(code: string, options: RunOnceOptions = {}): Promise<RunResult> {
    return runOnce(this.http, code, options)
  }

  /** Repeated after a lost connection only with `getOrCreate`: otherwise it could create two sandboxes. */
  createSandbox(body: CreateSandboxBody, { signal, timeoutMs }: CallOptions = {}): Promise<SandboxInfo> {
    const repeatable = body.getOrCreate === true
    return this.http.json({
      method: 'POST',
      path: '/v1/sandboxes',
      json: body,
      repeatable,
      signal,
      timeoutMs,
    })
  }

  async getSandbox(idOrName: string, { signal, timeoutMs }: CallOptions = {}): Promise<SandboxInfo> {
    return this.http.json({ path: `/v1/sandboxes/${pathPart('idOrName', idOrName)}`, signal, timeoutMs })
  }

  listSandboxes({ signal, timeoutMs, metadata = {}, ...filter }: ListSandboxes = {}): Pages<SandboxInfo> {
    const wanted: Query = {
      ...filter,
      ...Object.fromEntries(Object.entries(metadata).map(([key, value]) => [`metadata[${key}]`, value])),
    }
    return new Pages((page) =>
      this.http.json<SandboxPageAnswer>({
        path: '/v1/sandboxes',
        query: { ...wanted, ...page },
        signal,
        timeoutMs,
      }),
    )
  }
}

let shared: Dormouse | undefined

/** The given client, a new one for these options, or the shared one. */
export function clientOf({
  client,
  ...options
}: DormouseOptions & { readonly client?: Dormouse | undefined }): Dormouse {
  if (client !== undefined) return client
  if (Object.values(options).some((value) => value !== undefined)) return new Dormouse(options)
  shared ??= new Dormouse()
  return shared
}
