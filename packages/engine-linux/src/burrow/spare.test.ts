import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import { findHierarchies, type Hierarchies } from '../cgroup/find-hierarchies.ts'
import { FailureLog } from '../host/failure-log.ts'
import { Layout } from '../host/layout.ts'
import { removeBurrow } from './remove-burrow.ts'
import { type Spare, SparePool } from './spare.ts'

const TIMEOUT_MS = 20_000

describe('SparePool', () => {
  let stateDir: string
  let layout: Layout
  let hierarchies: Hierarchies
  let pool: SparePool
  const taken: Spare[] = []

  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'dormouse-spare-'))
    layout = new Layout(stateDir, stateDir)
    for (const path of [layout.burrowsDir, layout.sparesDir]) await mkdir(path)
    hierarchies = await findHierarchies()
    pool = new SparePool({ layout, hierarchies, failures: new FailureLog() })
  })

  afterEach(async () => {
    for (const spare of taken.splice(0)) await remove(spare)
    await pool[Symbol.asyncDispose]()
    expect(await readdir(layout.burrowsDir)).toEqual([])
    expect(await readdir(layout.sparesDir)).toEqual([])
    for (const directory of new BurrowCgroup(hierarchies, layout.cgroupName).directories)
      if (existsSync(directory)) await rmdir(directory)
    await rm(layout.runDir, { recursive: true, force: true })
    await rm(stateDir, { recursive: true })
  })

  async function take(): Promise<Spare> {
    const spare = await pool.take()
    taken.push(spare)
    return spare
  }

  async function remove(spare: Spare): Promise<void> {
    spare.init.cancel()
    await removeBurrow(spare.paths, hierarchies)
  }

  async function waitForMarks(count: number): Promise<void> {
    const deadline = Date.now() + TIMEOUT_MS
    while ((await readdir(layout.sparesDir)).length !== count && Date.now() < deadline) await sleep(10)
    expect(await readdir(layout.sparesDir)).toHaveLength(count)
  }

  it('makes as many as are expected, and gives each to one taker, without its mark', async () => {
    pool.expect(5)
    await waitForMarks(3)
    const spares = await Promise.all(Array.from({ length: 5 }, take))
    expect(new Set(spares.map(({ paths }) => paths.id)).size).toBe(5)
    for (const { paths, init } of spares) {
      expect(init.isWaiting).toBe(true)
      expect(existsSync(paths.spareMark)).toBe(false)
    }
  })

  it('removes those that were expected for nothing, but for the usual few', async () => {
    const withdraw = pool.expect(4)
    await waitForMarks(4)
    withdraw()
    await waitForMarks(2)
    expect(await readdir(layout.burrowsDir)).toHaveLength(2)
  })

  it.each([
    ['all of whose processes have died', () => true],
    ['whose future PID 1 has died', isFirstInNamespace],
  ])('never gives out one %s', async (_what, isKilled) => {
    pool.expect(2)
    await waitForMarks(2)
    // The first `take` leaves one that waits.
    const first = await take()
    const [second] = (await readdir(layout.sparesDir)) as [string]
    const cgroup = new BurrowCgroup(hierarchies, join(dirname(first.paths.cgroup), second))
    const killed = async () => (await cgroup.members().catch(() => [])).filter(isKilled)
    // Its mark is there before its cgroups are. It joins them and makes its namespaces by itself.
    for (const deadline = Date.now() + TIMEOUT_MS; Date.now() < deadline; await sleep(5))
      if ((await killed()).length > 0) break
    for (const pid of await killed()) process.kill(pid, 'SIGKILL')
    await sleep(50)
    const next = await take()
    expect(next.paths.id).not.toBe(second)
    expect(next.init.isWaiting).toBe(true)
  })
})

function isFirstInNamespace(pid: number): boolean {
  return /^NSpid:.*\t1$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
}
