import type { Criu } from '../criu/find-criu.ts'
import { KDAT_HOST } from '../criu/kdat.ts'
import { FILE_VALIDATION, type StartedCriu, startCriu } from '../criu/run-criu.ts'

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
export class Dumper implements Disposable {
  readonly #criu: Criu
  #waiting: StartedCriu | undefined
  #next: NodeJS.Timeout | undefined
  #isDisposed = false

  constructor(criu: Criu) {
    this.#criu = criu
  }

  get criuVersion(): string {
    return this.#criu.version
  }

  /** Makes sure that one waits. */
  prepare(): void {
    if (!this.#isDisposed && this.#waiting?.isWaiting !== true) this.#waiting = this.#start()
  }

  take(): StartedCriu {
    const waiting = this.#waiting
    this.#waiting = undefined
    this.#next = setTimeout(() => this.prepare(), PAUSE_MS).unref()
    return waiting?.isWaiting === true ? waiting : this.#start()
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true
    clearTimeout(this.#next)
    this.#waiting?.cancel()
    this.#waiting = undefined
  }

  #start(): StartedCriu {
    return startCriu({ criu: this.#criu, as: 'host', kdatDir: KDAT_HOST, action: DUMP })
  }
}
