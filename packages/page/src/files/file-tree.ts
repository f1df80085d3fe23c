import { signal } from '@preact/signals'
import type { FileChange, FileStat, Sandbox } from 'dormouse'

const CHANGED_MS = 4000

/** The directories that were opened, and what changes in them. Of a sleeping sandbox it shows the snapshot. */
export class FileTree {
  readonly root = signal<string | undefined>(undefined)
  readonly directories = signal<ReadonlyMap<string, readonly FileStat[]>>(new Map())
  readonly open = signal<ReadonlySet<string>>(new Set())
  /** Paths that changed a moment ago. */
  readonly changed = signal<ReadonlySet<string>>(new Set())
  readonly #sandbox: Sandbox
  readonly #stop = new AbortController()
  readonly #isAwake: boolean
  #watching: AbortController | undefined

  constructor(sandbox: Sandbox, { isAwake }: { isAwake: boolean }) {
    this.#sandbox = sandbox
    this.#isAwake = isAwake
  }

  /** Shows this directory and what is below it; `.` is where runs begin. */
  async show(path: string): Promise<void> {
    this.#watching?.abort()
    const found = await this.#sandbox.files.stat(path, this.#options)
    // `.` stays at the end of the path that the sandbox answers with.
    const root = found.path.replace(/\/\.$/, '') || '/'
    await this.read(root)
    this.open.value = new Set(this.open.value).add(root)
    this.root.value = root
    // Watching would wake it.
    if (!this.#isAwake) return
    this.#watching = new AbortController()
    void this.#watch(root, AbortSignal.any([this.#stop.signal, this.#watching.signal])).catch(() => {})
  }

  get #options() {
    return { signal: this.#stop.signal, wake: this.#isAwake }
  }

  close(): void {
    this.#stop.abort()
  }

  async toggle(path: string): Promise<void> {
    const open = new Set(this.open.value)
    if (open.delete(path)) {
      this.open.value = open
      return
    }
    await this.read(path)
    this.open.value = open.add(path)
  }

  async read(path: string): Promise<void> {
    const items = await this.#sandbox.files.list(path, this.#options)
    const sorted = [...items].sort(
      (one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name),
    )
    this.directories.value = new Map(this.directories.value).set(path, sorted)
  }

  async #watch(root: string, signal: AbortSignal): Promise<void> {
    // Watching all of `/` would take every directory of the template.
    const changes = this.#sandbox.files.watch(root, { recursive: root !== '/', signal })
    for await (const change of changes) this.#take(change)
  }

  #take({ type, path }: FileChange): void {
    if (type === 'ready') return
    const parent = path.slice(0, path.lastIndexOf('/')) || '/'
    if (this.open.value.has(parent)) void this.read(parent).catch(() => {})
    this.changed.value = new Set(this.changed.value).add(path)
    setTimeout(() => {
      const rest = new Set(this.changed.value)
      rest.delete(path)
      this.changed.value = rest
    }, CHANGED_MS)
  }
}

function rank({ type }: FileStat): number {
  return type === 'directory' ? 0 : 1
}
