import type { Criu } from '../criu/find-criu.ts'
import { KDAT_HOST } from '../criu/kdat.ts'
import { FILE_VALIDATION, FREEZER_PATH } from '../criu/run-criu.ts'
import { Saver, type SaverHost } from './saver.ts'

/** The agent is the root of the tree that is saved; its pid never changes. */
const AGENT_PID = 2
/** Files that are open but deleted are saved with their content up to this size. */
const GHOST_LIMIT_BYTES = 1024 ** 3
/**
 * Where CRIU looks for the paths of inotify watches, of which the kernel tells no more than the inode. In the order of how
 * likely a program watches something there; it looks only when there is a watch, and stops at the first match.
 */
const WATCHED_PATHS = ['/root', '/home', '/tmp', '/run', '/srv', '/mnt', '/opt', '/etc', '/var', '/usr']

/** After this the one that was taken is at work, and whoever waits for it does not wait for the start of the next one too. */
const PAUSE_MS = 500

const DUMP = [
  'dump',
  ...['--tree', String(AGENT_PID)],
  // It holds every member of the cgroup, in the tree or not, before any of them can run again.
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
 * Loading CRIU and its libraries takes a third of the time of a small dump, and nothing in it depends on what is dumped: one is
 * kept waiting. It ends by itself when this process does.
 */
export class Dumper implements AsyncDisposable {
  readonly #criu: Criu
  readonly #host: SaverHost
  #waiting: Promise<Saver | undefined> | undefined
  #next: NodeJS.Timeout | undefined
  #isDisposed = false
  /** All that have not ended. */
  readonly #savers = new Set<Saver>()

  constructor(criu: Criu, host: SaverHost) {
    this.#criu = criu
    this.#host = host
  }

  get criuVersion(): string {
    return this.#criu.version
  }

  /** Makes sure that one waits. */
  prepare(): void {
    if (this.#isDisposed) return
    // Whoever takes it starts another, and learns why that fails.
    this.#waiting ??= this.#start().catch(() => undefined)
  }

  async take(): Promise<Saver> {
    const taken = this.#waiting
    this.#waiting = undefined
    clearTimeout(this.#next)
    this.#next = setTimeout(() => this.prepare(), PAUSE_MS).unref()
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
    await Promise.all([...this.#savers].map(({ ended }) => ended))
  }

  async #start(): Promise<Saver> {
    const saver = await Saver.start(this.#host, { criu: this.#criu, kdatDir: KDAT_HOST, action: DUMP })
    this.#savers.add(saver)
    void saver.ended.then(() => this.#savers.delete(saver))
    return saver
  }
}
