import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isSnapshotId } from '@dormouse/contracts'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { powerCut } from './power-cut.ts'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterEach(() => server.clear())
afterAll(() => server?.cleanUp())

const ROUNDS = 5

/** Counts in memory and in a file, and saves now and then; knows what was acknowledged. */
class Client {
  readonly name: string
  /** Runs that were answered, and how many of them were when it was last saved. */
  counted = 0
  saved: number | undefined
  /** What was asked for and not answered. */
  asked: 'run' | 'save' | undefined
  isAsleep = false

  constructor(name: string) {
    this.name = name
  }

  async work(): Promise<void> {
    await this.#ask('/v1/sandboxes', { name: this.name, idleTimeoutMs: 0 })
    await server.run(
      this.name,
      'n = 0\ndef count():\n  global n\n  n += 1\n  open("/root/n", "w").write(str(n))',
    )
    for (let step = 0; ; step += 1) {
      this.asked = 'run'
      this.isAsleep = false
      await server.run(this.name, 'count()')
      this.counted += 1
      this.asked = undefined
      if (step % 2 === 1) await this.#save(step % 8)
    }
  }

  async #save(step: number): Promise<void> {
    this.asked = 'save'
    const path = `/v1/sandboxes/${this.name}`
    if (step === 1) await this.#ask(`${path}/standby`, { tier: 'stored' })
    if (step === 3) await this.#ask(`${path}/standby`, { tier: 'frozen' })
    if (step === 5) await this.#ask(`${path}/snapshots`, {})
    if (step === 7) await this.#ask(`${path}/fork`, { count: 1 })
    this.isAsleep = step < 4
    this.saved = this.counted
    this.asked = undefined
    await sleep(20)
  }

  async #ask(path: string, json: object): Promise<void> {
    await server.ok(path, { json })
  }
}

async function check(client: Client): Promise<void> {
  const { name, counted, saved, asked, isAsleep } = client
  const { lostSince, id } = await server.ok(`/v1/sandboxes/${name}`)
  const what = JSON.stringify({ name, counted, saved, asked, isAsleep, lostSince })
  const inMemory = Number(await server.run(name, 'print(globals().get("n", -1))'))
  const inFile = Number(await server.run(name, 'print(open("/root/n").read())'))
  if (lostSince === undefined) {
    expect(inMemory, what).toBe(inFile)
    expect(inMemory, what).toBeGreaterThanOrEqual(counted)
    expect(inMemory, what).toBeLessThanOrEqual(counted + 1)
    return
  }
  // What slept and was asked for nothing has nothing to lose.
  expect(isAsleep && asked === undefined, what).toBe(false)
  if (saved === undefined) expect(inMemory, what).toBe(-1)
  else expect(inMemory, what).toBeGreaterThanOrEqual(saved)
  // Its files are there as they were last: in place, or kept.
  if (inFile >= counted) return
  const { items } = await server.ok(`/v1/snapshots?sandboxId=${id}`)
  const files = items.find(({ kind }: { kind: string }) => kind === 'files')
  await server.ok(`/v1/sandboxes/${name}/rollback`, { json: { snapshotId: files?.id } })
  expect(Number(await server.run(name, 'print(open("/root/n").read())')), what).toBeGreaterThanOrEqual(
    counted,
  )
}

test('power cuts at any moment, also while the server starts again: `lostSince` tells what is lost, and nothing else is', async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const clients = ['ada', 'bob', 'cyd'].map((name) => new Client(`${name}-${round}`))
    const working = clients.map((client) => client.work().catch(() => {}))
    await sleep(1_500 + round * 431)
    await server.kill()
    await Promise.all(working)
    await powerCut(server.factory)
    const starting = server.begin().catch(() => {})
    await sleep(300 + round * 397)
    await server.kill()
    await starting
    await server.begin()
    for (const client of clients) if (client.counted > 0) await check(client)
    await server.clear()
    expect(await server.factory.traces()).toEqual([])
  }
}, 240_000)

test('a power cut before a fork is on disk: the parent goes back to its former head, the child to its template', async () => {
  const { snapshotsDir } = server.factory.layout
  const snapshots = async () => (await readdir(snapshotsDir)).filter(isSnapshotId)
  await server.kill()
  // To the server the fork never gets to the disk, so it keeps the former head.
  await server.begin([{ method: 'syncSnapshot', when: 'before', does: 'hang' }])
  await server.ok('/v1/sandboxes', { json: { name: 'ada', idleTimeoutMs: 0 } })
  await server.run('ada', 'x = "saved"; open("/root/f", "w").write(x)')
  await server.ok('/v1/sandboxes/ada/standby', { json: { tier: 'stored' } })
  await server.run('ada', 'x = "changed"; open("/root/f", "w").write(x)')
  const [former] = await snapshots()
  const {
    children: [child],
  } = await server.ok('/v1/sandboxes/ada/fork', { json: { count: 1 } })
  await server.ok(`/v1/sandboxes/${child.id}`, { method: 'PATCH', json: { name: 'bob' } })
  expect(await server.run('bob', 'print(x)')).toBe('changed\n')
  await server.kill()
  await powerCut(server.factory)
  const ofFork = (await snapshots()).find((id) => id !== former)
  await writeFile(join(snapshotsDir, `.unsynced-${ofFork}-00000000-0000-4000-8000-000000000000`), '')
  await server.begin()
  expect(await snapshots()).toEqual([former])
  expect((await server.ok('/v1/sandboxes/ada')).lostSince).toBeDefined()
  expect(await server.run('ada', 'print(x, open("/root/f").read())')).toBe('saved saved\n')
  expect((await server.ok('/v1/sandboxes/bob')).lostSince).toBeDefined()
  expect(await server.run('bob', 'import os; print("x" in globals(), os.path.exists("/root/f"))')).toBe(
    'False False\n',
  )
})

test('a power cut that undoes what was written about an ephemeral sandbox brings none back', async () => {
  const { stateDir } = server.factory
  const create = async () => (await server.ok('/v1/sandboxes', { json: { ephemeral: true } })).id
  const [first, second] = [await create(), await create()]
  const saved = new Map<string, Buffer>()
  for (const name of ['state.db', 'state.db-wal']) saved.set(name, await readFile(join(stateDir, name)))
  expect((await server.call(`/v1/sandboxes/${first}`, { method: 'DELETE' })).status).toBe(204)
  await server.kill()
  await powerCut(server.factory)
  await rm(join(stateDir, 'state.db-shm'), { force: true })
  for (const [name, bytes] of saved) await writeFile(join(stateDir, name), bytes)
  await server.begin()
  for (const id of [first, second]) expect((await server.call(`/v1/sandboxes/${id}`)).status).toBe(404)
})
