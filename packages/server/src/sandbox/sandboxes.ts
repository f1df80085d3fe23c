import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { Sandbox } from './sandbox.ts'

/** Every sandbox of this server, by id and by the name that its owner gave it. */
export class Sandboxes {
  readonly #byId = new Map<string, Sandbox>()
  readonly #byName = new Map<string, Sandbox>()
  readonly #awake = new Set<Sandbox>()
  readonly #frozen = new Set<Sandbox>()
  #changed = new Set<Sandbox>()
  /** Called when there is something for `takeChanged`. */
  onChange: (() => void) | undefined

  /** In no order. */
  all(): Iterable<Sandbox> {
    return this.#byId.values()
  }

  /** Those that do not sleep: they run, or change between two states. */
  awake(): Iterable<Sandbox> {
    return this.#awake
  }

  frozen(): Iterable<Sandbox> {
    return this.#frozen
  }

  /** All sleep, and there is nothing for `takeChanged`. */
  get isQuiet(): boolean {
    return this.#awake.size === 0 && this.#changed.size === 0
  }

  /** Those that were added, removed or written since the last call. Few of many: most sandboxes sleep. */
  takeChanged(): Iterable<Sandbox> {
    const changed = this.#changed
    this.#changed = new Set()
    return changed
  }

  find(id: string): Sandbox | undefined {
    return this.#byId.get(id)
  }

  /** Callers see it here. */
  isHere(id: string): boolean {
    return this.#byId.get(id)?.isDeleted === false
  }

  /** A name is free again as soon as the deletion of its sandbox has begun. */
  findNamed(name: string, owner: string): Sandbox | undefined {
    const found = this.#byName.get(nameKey(name, owner))
    return found?.isDeleted === false ? found : undefined
  }

  add(sandbox: Sandbox): void {
    this.#byId.set(sandbox.id, sandbox)
    this.#addName(sandbox)
    this.#sort(sandbox)
  }

  remove(sandbox: Sandbox): void {
    this.#byId.delete(sandbox.id)
    this.#removeName(sandbox, sandbox.row.name)
    this.#awake.delete(sandbox)
    this.#frozen.delete(sandbox)
    this.#addChanged(sandbox)
  }

  /** Its row was written, or could not be written. `before`: the row until then. */
  changed(sandbox: Sandbox, before: Pick<SandboxRow, 'name'> = sandbox.row): void {
    if (this.#byId.get(sandbox.id) !== sandbox) return
    if (before.name !== sandbox.row.name) {
      this.#removeName(sandbox, before.name)
      this.#addName(sandbox)
    }
    this.#sort(sandbox)
  }

  #sort(sandbox: Sandbox): void {
    const { state, tier } = sandbox.row
    if (state === 'standby') this.#awake.delete(sandbox)
    else this.#awake.add(sandbox)
    if (tier === 'frozen') this.#frozen.add(sandbox)
    else this.#frozen.delete(sandbox)
    this.#addChanged(sandbox)
  }

  #addChanged(sandbox: Sandbox): void {
    this.#changed.add(sandbox)
    this.onChange?.()
  }

  #addName(sandbox: Sandbox): void {
    const { name, owner } = sandbox.row
    if (name !== undefined) this.#byName.set(nameKey(name, owner), sandbox)
  }

  #removeName(sandbox: Sandbox, name: string | undefined): void {
    if (name === undefined) return
    const key = nameKey(name, sandbox.row.owner)
    if (this.#byName.get(key) === sandbox) this.#byName.delete(key)
  }
}

/** Names have no slash. */
function nameKey(name: string, owner: string): string {
  return `${owner}/${name}`
}
