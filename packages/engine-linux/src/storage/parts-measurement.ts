import type { LayerId } from '@dormouse/contracts'
import type { DiskUse, Measurement, StopAt } from '@dormouse/engine'
import { TreeMeasurement } from '../host/tree-measurement.ts'

export interface Part {
  readonly path: string
  /** A layer never changes, so it is measured once. */
  readonly layer?: LayerId
}

/** Measures several directories, one after the other, in as many turns as it takes. */
export class PartsMeasurement implements Measurement {
  readonly #parts: Part[]
  readonly #stopAt: StopAt
  readonly #known: Map<LayerId, DiskUse>
  #under: { readonly part: Part; readonly tree: TreeMeasurement } | undefined
  #bytes = 0
  #files = 0

  constructor(parts: readonly Part[], stopAt: StopAt, known: Map<LayerId, DiskUse>) {
    this.#parts = [...parts]
    this.#stopAt = stopAt
    this.#known = known
  }

  async advance(ms: number): Promise<DiskUse | undefined> {
    const deadline = performance.now() + ms
    for (;;) {
      const under = this.#under ?? this.#next()
      if (under === undefined) return this.#sum(true)
      this.#under = under
      const use = await under.tree.advance(Math.max(1, deadline - performance.now()))
      if (use === undefined) return undefined
      this.#under = undefined
      this.#add(use)
      if (!use.isWhole || this.#isOver()) return this.#sum(false)
      if (under.part.layer !== undefined) this.#known.set(under.part.layer, use)
    }
  }

  [Symbol.dispose](): void {
    this.#under?.tree[Symbol.dispose]()
  }

  #next(): { part: Part; tree: TreeMeasurement } | undefined {
    for (let part = this.#parts.shift(); part !== undefined; part = this.#parts.shift()) {
      const use = part.layer === undefined ? undefined : this.#known.get(part.layer)
      if (use === undefined) return { part, tree: new TreeMeasurement(part.path, this.#rest()) }
      this.#add(use)
    }
    return undefined
  }

  /** What the remaining directories may hold before a bound is exceeded. */
  #rest(): StopAt {
    const { bytes, files } = this.#stopAt
    return {
      ...(bytes !== undefined && { bytes: Math.max(1, bytes - this.#bytes) }),
      ...(files !== undefined && { files: Math.max(1, files - this.#files) }),
    }
  }

  #add({ bytes, files }: DiskUse): void {
    this.#bytes += bytes
    this.#files += files
  }

  #isOver(): boolean {
    const { bytes, files } = this.#stopAt
    return (bytes !== undefined && this.#bytes > bytes) || (files !== undefined && this.#files > files)
  }

  #sum(isWhole: boolean): DiskUse {
    return { bytes: this.#bytes, files: this.#files, isWhole }
  }
}
