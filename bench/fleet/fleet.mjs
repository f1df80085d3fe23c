import { randomBytes } from 'node:crypto'
import { ClusterKey, chooseHost, Directory } from '@dormouse/cluster'
import { DepotBytes } from './depot-bytes.mjs'
import { MemoryBucket } from './memory-bucket.mjs'
import { Timeline } from './timeline.mjs'
import { lognormal } from './traffic.mjs'

const GB = 1024 ** 3
/** Medians that were measured on one host and in tests/cluster; the spread is assumed. */
const WAKE_MS = { stored: 60, elsewhere: 500 }
const WAKE_SPREAD = 0.3
const WAKE_CPU_S = 0.05
const CPUS = 32
const MINUTES = 24 * 60
/** The part of its memory below which a host wakes no more sandboxes. */
const FULL = 0.05

export const HOST_MEMORY = 256 * GB
export const SANDBOX_MEMORY = 0.5 * GB

/** Modelled hosts and sandboxes, with the real directory and the real placement. */
export class Fleet {
  key = new ClusterKey(randomBytes(32))
  latencies = []
  placements = { wakes: 0, creates: 0, createsElsewhere: 0, refused: 0, tookMs: 0 }
  lostSessions = 0
  peakAwakeBytes = 0
  writesAt = new Float64Array(MINUTES)
  #random
  #hosts
  #waking
  #lost = new Set()
  #directory
  #located
  #hostOf
  #awakeUntil
  #awakeBytes = 0
  #sleeping = new Timeline()
  depot

  constructor({ hosts, sandboxes, random }) {
    this.#random = random
    this.#hosts = Array.from({ length: hosts }, (_, index) => hostRecord(index))
    this.#waking = this.#hosts.map(() => ({ queuedS: 0, lastS: 0 }))
    this.#located = new Array(sandboxes)
    this.#hostOf = new Int32Array(sandboxes)
    this.#awakeUntil = new Float64Array(sandboxes)
    const valueAround = (median) => lognormal(random, median, 1)
    this.depot = new DepotBytes({ sandboxes, memoryBytes: SANDBOX_MEMORY, valueAround })
  }

  /** Writes an entry for each sandbox, spread evenly, as a fleet that has been in use for long is. */
  async fill() {
    this.#directory = await Directory.open({ bucket: new MemoryBucket(), key: this.key })
    for (let index = 0; index < this.#located.length; index += 1) {
      this.#hostOf[index] = index % this.#hosts.length
      this.#located[index] = await this.#directory.add(`sb-${index}`, this.#entryOf(index))
    }
  }

  /** What it was awake for is lost, and so are the changes of that session. */
  loseHost(index) {
    this.#lost.add(index)
  }

  /** A new sandbox takes the number of one that is deleted before. Placed by the host that is asked, as all creates. */
  async create(sandbox, { startS, awakeS, changedBytes }) {
    if (this.#awakeUntil[sandbox] > startS) return
    const asked = this.#pickAlive()
    const chosen = this.#choose(asked)
    if (chosen === undefined) return
    this.placements.creates += 1
    if (chosen !== asked) this.placements.createsElsewhere += 1
    this.#hostOf[sandbox] = chosen
    this.depot.remove(sandbox)
    // The entry of the deleted one goes, and one for the new one comes.
    this.#countWrite(startS)
    await this.#write(sandbox, startS, { host: this.#hosts[chosen].id, state: 'running' })
    this.#stayAwake(sandbox, { startS, awakeS, changedBytes })
  }

  async wake(sandbox, { startS, awakeS, changedBytes }) {
    if (this.#awakeUntil[sandbox] > startS) return
    let kind = 'stored'
    const own = this.#hosts[this.#hostOf[sandbox]]
    if (this.#lost.has(this.#hostOf[sandbox]) || own.room.memoryFreeBytes < HOST_MEMORY * FULL) {
      const chosen = this.#choose(this.#pickAlive())
      if (chosen === undefined) return
      this.placements.wakes += 1
      kind = 'elsewhere'
      this.#hostOf[sandbox] = chosen
      const generation = this.#located[sandbox].entry.generation + 1
      await this.#write(sandbox, startS, { host: this.#hosts[chosen].id, generation })
    }
    await this.#write(sandbox, startS, { state: 'running' })
    this.latencies.push(lognormal(this.#random, WAKE_MS[kind], WAKE_SPREAD) + this.#queueMs(sandbox, startS))
    this.#stayAwake(sandbox, { startS, awakeS, changedBytes })
  }

  async fallAsleep(untilS) {
    for (const { sandbox, host, changedBytes, endS } of this.#sleeping.takeUntil(untilS)) {
      this.#awakeBytes -= SANDBOX_MEMORY
      this.#hosts[host].room.memoryFreeBytes += SANDBOX_MEMORY
      if (this.#lost.has(host)) {
        this.lostSessions += 1
        continue
      }
      this.depot.save(sandbox, changedBytes)
      // Asleep, then replicated.
      await this.#write(sandbox, endS, { state: 'standby' })
      await this.#write(sandbox, endS, { state: 'standby' })
    }
  }

  #stayAwake(sandbox, { startS, awakeS, changedBytes }) {
    const host = this.#hostOf[sandbox]
    this.#hosts[host].room.memoryFreeBytes -= SANDBOX_MEMORY
    this.#awakeBytes += SANDBOX_MEMORY
    this.peakAwakeBytes = Math.max(this.peakAwakeBytes, this.#awakeBytes)
    this.#awakeUntil[sandbox] = startS + awakeS
    this.#sleeping.add({ sandbox, host, changedBytes, endS: startS + awakeS })
  }

  /** Wakes of one host that come at once share its processors. */
  #queueMs(sandbox, startS) {
    const waking = this.#waking[this.#hostOf[sandbox]]
    waking.queuedS = Math.max(0, waking.queuedS - (startS - waking.lastS) * CPUS) + WAKE_CPU_S
    waking.lastS = startS
    return (waking.queuedS / CPUS) * 1000
  }

  #pickAlive() {
    for (;;) {
      const index = Math.floor(this.#random() * this.#hosts.length)
      if (!this.#lost.has(index)) return index
    }
  }

  #choose(asked) {
    const alive = this.#hosts.filter((_, index) => !this.#lost.has(index))
    const preferred = this.#hosts[asked].id
    const began = performance.now()
    const { chosen } = chooseHost(alive, {
      ...{ memoryBytes: SANDBOX_MEMORY, preferred, problemOf: () => undefined },
    })
    this.placements.tookMs += performance.now() - began
    if (chosen === undefined) this.placements.refused += 1
    return chosen && this.#hosts.indexOf(chosen)
  }

  async #write(sandbox, atS, change) {
    const located = this.#located[sandbox]
    const next = await this.#directory.change(located, { ...located.entry, ...change })
    if (next === undefined) throw new Error('the entry has changed')
    this.#located[sandbox] = next
    this.#countWrite(atS)
  }

  #countWrite(atS) {
    this.writesAt[Math.min(MINUTES - 1, Math.floor(atS / 60))] += 1
  }

  #entryOf(index) {
    const id = `sb-${index}`
    const at = { createdAt: '2026-01-01T00:00:00.000Z', needs: {} }
    return {
      ...{ host: this.#hosts[this.#hostOf[index]].id, epoch: 1, generation: 0, owner: 'key-1' },
      ...{ state: 'standby', createdAt: 1, head: `sn-${id}` },
      replica: { snapshotId: `sn-${id}`, list: `all-${id}-1`, ...at },
      row: { id, template: 'python', metadata: {}, limits: { memoryBytes: SANDBOX_MEMORY } },
    }
  }
}

function hostRecord(index) {
  return {
    ...{ id: `host-${index}`, address: `http://host-${index}`, version: '0', startedAt: '', instance: '' },
    ...{
      epoch: 1,
      renewals: 0,
      hasLeft: false,
      isCordoned: false,
      arch: 'x64',
      kernel: '6.12',
      abilities: {},
    },
    room: {
      ...{ memoryTotalBytes: HOST_MEMORY, memoryFreeBytes: HOST_MEMORY, cpus: CPUS },
      ...{ diskTotalBytes: 4096 * GB, diskFreeBytes: 2048 * GB },
    },
    load: { running: 0, sandboxes: 0, cpu: 0 },
  }
}
