/** A bucket of NATS as the directory uses it, in memory. Counts the operations that JetStream would have to hold. */
export class MemoryBucket {
  operations = { reads: 0, writes: 0 }
  #revision = 0
  #entries = new Map()

  async put(key, value, { previousSeq }) {
    if ((this.#entries.get(key)?.revision ?? 0) !== previousSeq)
      throw Object.assign(new Error('wrong last sequence'), { code: 10071 })
    return this.#put(key, value)
  }

  async update(key, value, expected) {
    if (this.#entries.get(key)?.revision !== expected)
      throw Object.assign(new Error('wrong last sequence'), { code: 10071 })
    return this.#put(key, value)
  }

  async delete(key, { previousSeq }) {
    if (this.#entries.get(key)?.revision !== previousSeq)
      throw Object.assign(new Error('wrong last sequence'), { code: 10071 })
    this.#put(key, undefined)
  }

  async get(key) {
    this.operations.reads += 1
    const found = this.#entries.get(key)
    if (found === undefined) return null
    return { ...found, operation: found.value === undefined ? 'DEL' : 'PUT' }
  }

  async status() {
    return { values: 0, streamInfo: { state: { last_seq: 0 }, config: { name: 'fleet' } } }
  }

  /** Hosts follow changes over the network; the model has one copy of the directory, which writes to it directly. */
  async watch() {
    let stop
    const stopped = new Promise((resolve) => {
      stop = () => resolve({ done: true })
    })
    return { stop, [Symbol.asyncIterator]: () => ({ next: () => stopped }) }
  }

  #put(key, value) {
    this.operations.writes += 1
    this.#revision += 1
    this.#entries.set(key, { value, revision: this.#revision })
    return this.#revision
  }
}
