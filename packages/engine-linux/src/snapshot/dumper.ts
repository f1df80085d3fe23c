import type { Criu } from '../criu/find-criu.ts'
import { KDAT_HOST } from '../criu/kdat.ts'
import { FILE_VALIDATION, FREEZER_PATH } from '../criu/run-criu.ts'
import { type DumpHost, DumpProcess } from './dump-process.ts'

/** The agent is the root of the tree that is saved; its pid never changes. */
const AGENT_PID = 2
/** Deleted files that are still open are saved with their content up to this size. */
const GHOST_LIMIT_BYTES = 1024 ** 3
/**
 * Where CRIU searches for the paths of inotify watches, of which the kernel shows only the inode. The likeliest come
 * first: it searches only when there is a watch, and stops at the first match.
 */
const WATCHED_PATHS = ['/root', '/home', '/tmp', '/run', '/srv', '/mnt', '/opt', '/etc', '/var', '/usr']

/** By then a dump that was just taken is under way, and does not compete with the start of the next CRIU. */
const PREPARE_DELAY_MS = 500

const DUMP = [
  'dump',
  ...['--tree', String(AGENT_PID)],
  // CRIU seizes every member of the cgroup, in the tree or not, before any of them can run again.
  ...['--freeze-cgroup', FREEZER_PATH],
  '--leave-stopped',
  ...['--network-lock', 'skip'],
  '--tcp-established',
  '--manage-cgroups=ignore',
  '--file-locks',
  '--link-remap',
  ...['--ghost-limit', String(GHOST_LIMIT_BYTES)],
  ...FILE_VALIDATION,
  ...WATCHED_PATHS.flatMap((path) => ['--irmap-scan-path', path]),
] as const

/**
 * Keeps one CRIU started and waiting for the next dump: loading it takes a third of the time of a small dump, and does
 * not depend on what is dumped. A waiting CRIU ends by itself when this process does.
 */
export class Dumper implements AsyncDisposable {
  readonly #criu: Criu
  readonly #host: DumpHost
  #waiting: Promise<DumpProcess | undefined> | undefined
  #next: NodeJS.Timeout | undefined
  #isDisposed = false
  /** All dump processes that have not ended. */
  readonly #processes = new Set<DumpProcess>()

  constructor(criu: Criu, host: DumpHost) {
    this.#criu = criu
    this.#host = host
  }

  get criuVersion(): string {
    return this.#criu.version
  }

  /** Starts a CRIU unless one is waiting. */
  prepare(): void {
    if (this.#isDisposed) return
    // `take` then starts another, and throws if that fails too.
    this.#waiting ??= this.#start().catch((error: unknown) => {
      this.#host.failures.report('spare', error, {}, 'no CRIU was started ahead of need')
      return undefined
    })
  }

  async take(): Promise<DumpProcess> {
    const taken = this.#waiting
    this.#waiting = undefined
    clearTimeout(this.#next)
    this.#next = setTimeout(() => this.prepare(), PREPARE_DELAY_MS).unref()
    const waiting = await taken
    if (waiting?.isWaiting === true) return waiting
    waiting?.cancel()
    return this.#start()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true
    clearTimeout(this.#next)
    const waiting = this.#waiting
    this.#waiting = undefined
    ;(await waiting)?.cancel()
    await Promise.all([...this.#processes].map(({ ended }) => ended))
  }

  async #start(): Promise<DumpProcess> {
    const dump = await DumpProcess.start(this.#host, { criu: this.#criu, kdatDir: KDAT_HOST, action: DUMP })
    this.#processes.add(dump)
    void dump.ended.then(() => this.#processes.delete(dump))
    return dump
  }
}
