import type { Sandbox } from './sandbox.ts'

/** Every sandbox of this server, by id and by the name that its owner gave it. */
export class Sandboxes {
  readonly #byId = new Map<string, Sandbox>()
  readonly #byName = new Map<string, Sandbox>()

  /** In no order. */
  all(): Iterable<Sandbox> {
    return this.#byId.values()
  }

  find(id: string): Sandbox | undefined {
    return this.#byId.get(id)
  }

  /** A name is free again as soon as the deletion of its sandbox has begun. */
  findNamed(name: string, owner: string): Sandbox | undefined {
    const found = this.#byName.get(nameKey(name, owner))
    return found?.isDeleted === false ? found : undefined
  }

  add(sandbox: Sandbox): void {
    this.#byId.set(sandbox.id, sandbox)
    this.#addName(sandbox)
  }

  remove(sandbox: Sandbox): void {
    this.#byId.delete(sandbox.id)
    this.#removeName(sandbox, sandbox.row.name)
  }

  /** The row of a sandbox has another name than before. */
  rename(sandbox: Sandbox, before: string | undefined): void {
    if (this.#byId.get(sandbox.id) !== sandbox) return
    this.#removeName(sandbox, before)
    this.#addName(sandbox)
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
