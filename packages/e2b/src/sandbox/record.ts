/** What E2B's clients know of a sandbox and Dormouse itself does not. */
export interface SandboxRecord {
  readonly sandboxId: string
  /** As the client named it. */
  readonly template: string
  /** Requests to the sandbox carry it as `X-Access-Token`. Undefined: none is asked for. */
  readonly accessToken?: string | undefined
  /** Requests to ports carry it as `e2b-traffic-access-token`. Undefined: ports are public. */
  readonly trafficToken?: string | undefined
  /** Extended by as much when traffic resumes the sandbox. */
  readonly timeoutMs: number
  readonly endAtMs: number
  readonly startedAtMs: number
  readonly onTimeout: 'kill' | 'pause'
  readonly autoResume: boolean
  /** A client has paused it and none has resumed it since. */
  readonly isPaused: boolean
  /** It was paused without its memory: its processes end, and it boots when it is resumed. */
  readonly isRebooting?: boolean | undefined
  /** Whether a pause at the end of its time keeps the memory. */
  readonly keepsMemory: boolean
  /** The network options, as the client gave them. */
  readonly network?: Readonly<Record<string, unknown>> | undefined
}

/** Keeps records on disk. A record is removed with its sandbox. */
export interface RecordStore {
  find(sandboxId: string): SandboxRecord | undefined
  /** Whether it had a record, and was deleted a while ago. */
  isGone(sandboxId: string): boolean
  all(): Iterable<SandboxRecord>
  put(record: SandboxRecord): void
}
