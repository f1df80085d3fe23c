import type { CreateSandboxBody, SandboxAnswer, SandboxPageAnswer, UsageAnswer } from './contract/index.ts'
import { Http, type HttpOptions, type Query } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { Abortable } from './options.ts'
import { type RunOnceOptions, runOnce } from './runs/run-once.ts'
import type { RunResult } from './runs/run-options.ts'
import { Scrub } from './scrub.ts'
import { Secrets } from './secrets.ts'
import { Snapshots } from './snapshots.ts'
import { SshKeys } from './ssh-keys.ts'
import { Templates } from './templates.ts'
import { findSocket, type SocketConstructor } from './terminals/socket.ts'
import { Volumes } from './volumes.ts'

export interface DormouseOptions extends HttpOptions {
  /** Where the server is. Then DORMOUSE_URL, then the local server's own file, then http://127.0.0.1:7070. */
  readonly url?: string | undefined
  /** Then DORMOUSE_API_KEY, then the local server's own file, for its own address only. */
  readonly apiKey?: string | undefined
  /** Where the local server has its file. Then DORMOUSE_DATA, then /var/lib/dormouse. */
  readonly dataDir?: string | undefined
  /** How long one answer may take, two minutes if not given; runs and files take what they take. 0: no limit. */
  readonly timeoutMs?: number | undefined
  /** Instead of the global one. */
  readonly fetch?: typeof globalThis.fetch | undefined
  /** For terminals, instead of the global one. Where there is none, terminals work over HTTP. */
  readonly WebSocket?: SocketConstructor | undefined
}

/** What a sandbox is, as of the last answer about it. */
export type SandboxInfo = SandboxAnswer

export interface ListSandboxes extends Abortable {
  readonly state?: SandboxInfo['state'] | undefined
  readonly template?: string | undefined
  readonly name?: string | undefined
  /** All that are given must match. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
}

export interface UsageOptions extends Abortable {
  /** ISO 8601; the beginning of this month if not given. */
  readonly from?: string | undefined
  /** Now if not given. */
  readonly to?: string | undefined
  readonly sandboxId?: string | undefined
}

export interface Health {
  readonly status: 'ok' | 'starting' | 'stopping'
  readonly version: string
}

/** A server. `Sandbox.create()` and its kind use one by themselves; make one to talk to several, or to share settings. */
export class Dormouse {
  readonly templates: Templates
  readonly volumes: Volumes
  readonly secrets: Secrets
  readonly snapshots: Snapshots
  readonly sshKeys: SshKeys
  readonly scrub: Scrub
  /** For the other classes of this package. */
  readonly http: Http
  readonly socket: SocketConstructor | undefined

  constructor(options: DormouseOptions = {}) {
    this.http = new Http(options)
    this.socket = options.WebSocket ?? findSocket()
    this.templates = new Templates(this.http)
    this.volumes = new Volumes(this.http)
    this.secrets = new Secrets(this.http)
    this.snapshots = new Snapshots(this.http)
    this.sshKeys = new SshKeys(this.http)
    this.scrub = new Scrub(this.http)
  }

  /** Is the server up? */
  health({ signal }: Abortable = {}): Promise<Health> {
    return this.http.json({ path: '/healthz', signal })
  }

  /** What was used, per sandbox and in total. */
  usage({ signal, ...query }: UsageOptions = {}): Promise<UsageAnswer> {
    return this.http.json({ path: '/v1/usage', query, signal })
  }

  /**
   * Runs code in a sandbox of its own that is gone afterwards: for input that is not to be trusted. Sent again only when nothing was
   * done: a connection that is lost in the middle throws `server_unreachable`.
   */
  runOnce(code: string, options: RunOnceOptions = {}): Promise<RunResult> {
    return runOnce(this.http, code, options)
  }

  /** Sent again when it is not known whether it arrived only with `getOrCreate`: twice would be one sandbox too many. */
  createSandbox(body: CreateSandboxBody, { signal }: Abortable = {}): Promise<SandboxInfo> {
    const repeatable = body.getOrCreate === true
    return this.http.json({ method: 'POST', path: '/v1/sandboxes', json: body, repeatable, signal })
  }

  getSandbox(idOrName: string, { signal }: Abortable = {}): Promise<SandboxInfo> {
    return this.http.json({ path: `/v1/sandboxes/${encodeURIComponent(idOrName)}`, signal })
  }

  listSandboxes({ signal, metadata = {}, ...filter }: ListSandboxes = {}): Pages<SandboxInfo> {
    const wanted: Query = {
      ...filter,
      ...Object.fromEntries(Object.entries(metadata).map(([key, value]) => [`metadata[${key}]`, value])),
    }
    return new Pages((page) =>
      this.http.json<SandboxPageAnswer>({ path: '/v1/sandboxes', query: { ...wanted, ...page }, signal }),
    )
  }
}

let shared: Dormouse | undefined

/** The one that is used where none is given. */
export function clientOf({
  client,
  ...options
}: DormouseOptions & { readonly client?: Dormouse | undefined }): Dormouse {
  if (client !== undefined) return client
  if (Object.values(options).some((value) => value !== undefined)) return new Dormouse(options)
  shared ??= new Dormouse()
  return shared
}
