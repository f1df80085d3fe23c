import type { VolumeId } from '@dormouse/contracts'
import type { VolumeFiles } from '@dormouse/engine'

/** Changes of volumes through the API, which no burrow makes. */
export class VolumeChanges {
  /** How many have begun. */
  readonly #begun = new Map<VolumeId, number>()
  readonly #underWay = new Map<VolumeId, number>()

  /** The same number before and after means that nothing changed in between; undefined while a change is under way. */
  count(id: VolumeId): number | undefined {
    return (this.#underWay.get(id) ?? 0) > 0 ? undefined : (this.#begun.get(id) ?? 0)
  }

  watch(id: VolumeId, files: VolumeFiles): VolumeFiles {
    const counted =
      <Args extends unknown[], Value>(change: (...args: Args) => Promise<Value>) =>
      async (...args: Args): Promise<Value> => {
        add(this.#begun, id, 1)
        add(this.#underWay, id, 1)
        try {
          return await change(...args)
        } finally {
          add(this.#underWay, id, -1)
        }
      }
    return {
      ...files,
      write: counted(files.write),
      mkdir: counted(files.mkdir),
      move: counted(files.move),
      remove: counted(files.remove),
    }
  }
}

function add(counts: Map<VolumeId, number>, id: VolumeId, change: number): void {
  const count = (counts.get(id) ?? 0) + change
  if (count === 0) counts.delete(id)
  else counts.set(id, count)
}
