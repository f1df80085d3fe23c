import { signal } from '@preact/signals'
import type { Run, Sandbox } from 'dormouse'
import { onEvent } from '../state/fleet.ts'
import { CellModel } from './cell-model.ts'

const PAGE = 30

/** The runs of a sandbox, oldest first, live. Reads the journal only, so it does not wake the sandbox. */
export class Cells {
  readonly list = signal<readonly CellModel[]>([])
  readonly isLoaded = signal(false)
  readonly olderCursor = signal<string | undefined>(undefined)
  readonly #sandbox: Sandbox
  readonly #byId = new Map<string, CellModel>()
  readonly #leave: () => void

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
    this.#leave = onEvent((event) => {
      if (event.type === 'gap') void this.#readNewest()
      if (event.sandboxId !== sandbox.id) return
      if (event.type === 'run.started') void this.#readNewest()
      if (event.type === 'run.finished') this.#byId.get(String(event.data['runId']))?.read()
    })
    void this.#readNewest()
  }

  close(): void {
    this.#leave()
    for (const cell of this.#byId.values()) cell.close()
  }

  /** The cell of a run, which may be new. */
  cellOf(run: Run): CellModel {
    const known = this.#byId.get(run.runId)
    if (known !== undefined) return known
    const cell = new CellModel(this.#sandbox, run)
    this.#byId.set(run.runId, cell)
    return cell
  }

  async readOlder(): Promise<void> {
    const page = await this.#sandbox.runs.list().page({ limit: PAGE, cursor: this.olderCursor.value })
    this.olderCursor.value = page.nextCursor
    this.#show(
      [...page.items]
        .reverse()
        .map((run) => this.cellOf(run))
        .concat(this.list.value),
    )
  }

  async #readNewest(): Promise<void> {
    try {
      const page = await this.#sandbox.runs.list().page({ limit: PAGE })
      const isFirst = !this.isLoaded.value
      if (isFirst) this.olderCursor.value = page.nextCursor
      const known = new Set(this.list.value)
      const fresh = [...page.items]
        .reverse()
        .map((run) => this.cellOf(run))
        .filter((cell) => !known.has(cell))
      this.#show([...this.list.value, ...fresh])
    } catch {
      // The next event, or the gap after a reconnect, reads again.
    }
    this.isLoaded.value = true
  }

  #show(cells: readonly CellModel[]): void {
    this.list.value = [...new Set(cells)]
  }
}
