import { stat } from 'node:fs/promises'

interface Remembered<Value> {
  /** How the file looked from outside when it was read. */
  readonly looks: string
  readonly value: Value
}

/** What was made of files that change rarely, so that each is read and parsed again only when it has changed. */
export class FileCache<Value> {
  readonly #max: number
  readonly #known = new Map<string, Remembered<Value>>()

  constructor(max: number) {
    this.#max = max
  }

  /** `read` is asked, and fails as it will, when the file is new, has changed or is gone. */
  async get(path: string, read: () => Promise<Value>): Promise<Value> {
    const looks = await lookAt(path)
    const known = this.#known.get(path)
    if (known !== undefined && known.looks === looks) return known.value
    this.#known.delete(path)
    const value = await read()
    // Changed while it was read: what was read may be of either, so the next one reads again.
    if (looks === undefined || looks !== (await lookAt(path))) return value
    this.#known.set(path, { looks, value })
    const [oldest] = this.#known.keys()
    if (this.#known.size > this.#max && oldest !== undefined) this.#known.delete(oldest)
    return value
  }
}

async function lookAt(path: string): Promise<string | undefined> {
  const found = await stat(path, { bigint: true }).catch(() => undefined)
  return found && `${found.dev} ${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}`
}
