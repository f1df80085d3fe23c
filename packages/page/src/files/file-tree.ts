import { signal } from '@preact/signals'
import type { FileChange, FileStat, Sandbox } from 'dormouse'

const CHANGED_MS = 4000

/** The directories that were opened, and what changes in them. */
export class FileTree {
  readonly root: string
  readonly directories = signal<ReadonlyMap<string, readonly FileStat[]>>(new Map())
  readonly open = signal<ReadonlySet<string>>(new Set())
  /** Paths that changed a moment ago. */
  readonly changed = signal<ReadonlySet<string>>(new Set())
  readonly #sandbox: Sandbox
  readonly #stop = new AbortController()

  constructor(sandbox: Sandbox, root: string) {
    this.#sandbox = sandbox
    this.root = root
  }

  async start(): Promise<void> {
    await this.toggle(this.root)
    void this.#watch().catch(() => {})
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
    const items = await this.#sandbox.files.list(path, { signal: this.#stop.signal })
    const sorted = [...items].sort(
      (one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name),
    )
    this.directories.value = new Map(this.directories.value).set(path, sorted)
  }

  async #watch(): Promise<void> {
    const changes = this.#sandbox.files.watch(this.root, { recursive: true, signal: this.#stop.signal })
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
