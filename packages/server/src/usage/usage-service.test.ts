import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { Snapshot } from '@dormouse/engine'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FakeClock, serverClock } from '../clock/testing/fake-clock.ts'
import { defaultSettings } from '../config/settings.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { journalMigrations, stateMigrations } from '../store/migrations/index.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { SnapshotRows } from '../store/snapshot-rows.ts'
import { UsageRows } from './usage-rows.ts'
import { UsageService } from './usage-service.ts'

const HOUR = 3_600_000
const GB = 1024 ** 3
const MIDNIGHT = Date.UTC(2026, 0, 2)
const OWNER = 'owner'
const caller = { keyId: OWNER, isAdmin: false }
const { prices } = defaultSettings({ cpus: 1, memoryBytes: GB, diskBytes: GB, files: 1, pids: 1 })
const log = { info() {}, warn() {}, error() {} }

let dir: string
let state: Database
let journal: Database
let snapshots: SnapshotRows
let sandboxes: SandboxRow[]
let stored: Map<SnapshotId, number>
let host: FakeClock

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'dormouse-usage-'))
  state = openDatabase({
    path: join(dir, 'state.db'),
    migrations: stateMigrations,
    synchronous: 'NORMAL',
  })
  journal = openDatabase({
    path: join(dir, 'journal.db'),
    migrations: journalMigrations,
    synchronous: 'NORMAL',
  })
  snapshots = new SnapshotRows(state)
  sandboxes = []
  stored = new Map()
  host = new FakeClock(MIDNIGHT)
})
afterEach(() => {
  state.close()
  journal.close()
  rmSync(dir, { recursive: true })
})

/** `waitMs`: after its start, before anything is counted. */
function start({ waitMs = 0 } = {}): UsageService {
  const rows = new UsageRows(journal)
  const clock = serverClock(host, rows.recordedAt)
  host.pass(waitMs)
  clock.look()
  return new UsageService({
    rows,
    snapshots,
    sandboxes: () => sandboxes.map((row) => ({ row })),
    findSandbox: (id) => sandboxes.flatMap((row) => (row.id === id ? { row } : []))[0],
    storage: async () => ({ totalBytes: 0, snapshots: new Map(stored) }),
    prices,
    clock,
    log,
  })
}

function sandbox(): SandboxRow {
  const limits = { memoryBytes: GB, cpus: 2, pids: 10, diskBytes: GB, files: 10 }
  const row = {
    id: newSandboxId(),
    owner: OWNER,
    name: undefined,
    createdAt: host.wall,
    limits,
  } as SandboxRow
  sandboxes.push(row)
  return row
}

function snapshot({ id: sandboxId }: SandboxRow, bytes: number): SnapshotId {
  const id = newSnapshotId()
  const whole = {
    id,
    sandboxId,
    kind: 'full',
    template: 'python',
    createdAt: new Date(host.wall),
    volumes: [],
  }
  const sizes = { limits: sandboxes[0]?.limits, bytes: { images: 0, memory: bytes } }
  snapshots.put({ ...whole, ...sizes } as unknown as Snapshot, { owner: OWNER, isKept: false })
  stored.set(id, bytes)
  return id
}

const at = (hours: number) => new Date(MIDNIGHT + hours * HOUR).toISOString()
const between = (service: UsageService, from: number, to: number) =>
  service.report({ from: at(from), to: at(to) }, caller)

describe('usage', () => {
  it('counts stored bytes for as long as they are there, and shared ones by their shares', async () => {
    using service = start()
    const [parent, child] = [sandbox(), sandbox()]
    await service.count()
    // As the storage report divides a gigabyte that both have: half of it each.
    snapshot(parent, GB / 2)
    const second = snapshot(child, GB / 2)
    host.pass(HOUR)
    await service.count()
    host.pass(HOUR)
    let { total, sandboxes: each } = await between(service, 0, 3)
    expect(total.storedGbHours).toBeCloseTo(2, 3)
    expect(each.map(({ storedGbHours }) => storedGbHours)).toEqual([
      expect.closeTo(1, 3),
      expect.closeTo(1, 3),
    ])
    // One of them goes: the other has the whole of it from then on.
    stored.delete(second)
    for (const id of stored.keys()) stored.set(id, GB)
    snapshots.delete(second)
    await service.count()
    host.pass(HOUR)
    ;({ total, sandboxes: each } = await between(service, 0, 4))
    expect(total.storedGbHours).toBeCloseTo(3, 3)
    expect(each.find(({ sandboxId }) => sandboxId === parent.id)?.storedGbHours).toBeCloseTo(2, 3)
  })

  it('time without a server is counted in the hours that it was, once, whenever the next one ends', async () => {
    const row = sandbox()
    snapshot(row, GB)
    {
      using service = start()
      await service.count()
      host.pass(HOUR / 2)
      await service.count()
    }
    host.pass(50 * HOUR)
    {
      // Ends before it has looked at the disk.
      using _brief = start()
    }
    host.pass(HOUR / 4)
    // A long time without a server is believed after a while.
    using service = start({ waitMs: HOUR / 4 })
    for (const hour of [0, 1, 20, 30, 50]) {
      const { total } = await between(service, hour, hour + 1)
      expect([hour, total.storedGbHours]).toEqual([hour, expect.closeTo(1, 6)])
      expect([hour, total.alwaysOnCost]).toEqual([
        hour,
        expect.closeTo(3600 * (2 * prices.alwaysOnCpuSecond + prices.alwaysOnMemoryGbSecond), 6),
      ])
    }
    expect((await between(service, 0, 51)).total.storedGbHours).toBeCloseTo(51, 6)
    expect((await between(service, 51, 52)).total.storedGbHours).toBe(0)
  })

  it('counts what a sandbox reserved up to its deletion, and by its limits of each time', async () => {
    using service = start()
    const [deleted, changed] = [sandbox(), sandbox()]
    await service.count()
    host.pass(4 * 60_000)
    sandboxes = [changed]
    service.listener.deleted(deleted)
    const larger = { ...changed, limits: { ...changed.limits, cpus: 4 } }
    sandboxes = [larger]
    service.listener.changed(larger, changed)
    host.pass(4 * 60_000)
    const { total } = await between(service, 0, 1)
    const cpuSeconds = 240 * 2 + 240 * 2 + 240 * 4
    expect(total.alwaysOnCost).toBeCloseTo(
      cpuSeconds * prices.alwaysOnCpuSecond + 720 * prices.alwaysOnMemoryGbSecond,
      6,
    )
  })

  it('a killed server loses no time that sandboxes existed', async () => {
    sandbox()
    const killed = start()
    await killed.count()
    for (let n = 0; n < 40; n++) {
      host.pass(5_000)
      await killed.count()
    }
    using service = start()
    const { total } = await between(service, 0, 1)
    expect(total.alwaysOnCost).toBeCloseTo(
      200 * (2 * prices.alwaysOnCpuSecond + prices.alwaysOnMemoryGbSecond),
      6,
    )
  })

  it('what a long sleep of the host put into one sample is spread over the hours, too', async () => {
    using service = start()
    const row = sandbox()
    host.pass(2.5 * HOUR)
    service.listener.ran?.(row, 2.5 * HOUR)
    service.listener.sampled?.(row, { ms: 2.5 * HOUR, cpuMs: 1000, memoryBytes: GB })
    const seconds: number[] = []
    for (const hour of [0, 1, 2]) {
      const { total } = await between(service, hour, hour + 1)
      seconds.push(total.runningSeconds)
      expect(total.memoryGbSeconds).toBeCloseTo(total.runningSeconds, 6)
      expect(total.cpuSeconds).toBeCloseTo(total.runningSeconds / 9000, 6)
    }
    expect(seconds).toEqual([3600, 3600, 1800])
  })

  it('says which hours it added up: those that the times asked for lie in, and not what is to come', async () => {
    using service = start()
    const row = sandbox()
    host.pass(HOUR + 1)
    service.listener.ran?.(row, HOUR)
    const report = await between(service, 0.5, 0.75)
    expect(report).toMatchObject({ from: at(0), to: at(1) })
    expect(report.total.runningSeconds).toBeCloseTo(3600, 1)
    const now_ = new Date(host.wall).toISOString()
    expect(await between(service, 0.5, 1.5)).toMatchObject({ from: at(0), to: now_ })
    expect(await service.report({}, caller)).toMatchObject({ from: '2026-01-01T00:00:00.000Z', to: now_ })
    expect(await between(service, 10.5, 11.5)).toMatchObject({ from: at(10), to: at(12) })
    await expect(service.report({ from: at(3) }, caller)).rejects.toMatchObject({ code: 'invalid_argument' })
  })

  it('counts the tokens that kept state saved, each run once, also over a restart', async () => {
    const { id } = sandbox()
    const run = journal.prepare<[string, string, number, string]>(
      `INSERT INTO runs (sandbox_id, run_id, context, language, state, started_at, code)
       VALUES (?, hex(randomblob(8)), ?, 'python', 'finished', ?, ?)`,
    )
    const add = (context: string, characters: number) =>
      run.run(id, context, host.wall, 'x'.repeat(characters))
    {
      using service = start()
      add('default', 400)
      add('default', 40)
      await service.count()
      // Another context has its own variables.
      add('other', 4000)
    }
    host.pass(HOUR)
    add('default', 4)
    using service = start()
    const { total, sandboxes: each } = await between(service, 0, 3)
    // The second run saved 100 tokens, the last one 110; the first of a context saves nothing.
    expect(total.savedTokens).toBe(210)
    expect(each.map(({ savedTokens }) => savedTokens)).toEqual([210])
    expect((await between(service, 0, 1)).total.savedTokens).toBe(100)
  })
})
