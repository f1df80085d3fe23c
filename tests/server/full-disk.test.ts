import { execFile } from 'node:child_process'
import { open, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { RunEvent } from '@dormouse/contracts'
import type { Guest } from '@dormouse/engine'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

const exec = promisify(execFile)
const MIB = 1024 ** 2
/** Room for the records of a few sandboxes, and no more. */
const RECORDS_MIB = 32

let host: TestHost
let core: TestCore
/** Where the server has its records: a file system of their own, so that filling it disturbs no other test. */
let records = ''

beforeAll(async () => {
  host = await testHost()
  records = join(host.factory.stateDir, 'server')
  await exec('mount', ['-t', 'tmpfs', '-o', `size=${RECORDS_MIB}m`, 'tmpfs', records])
  core = await host.open()
})

afterEach(async () => {
  await makeRoom()
  for (const sandbox of [...core.sandboxes.all()]) await sandbox.delete()
})
afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await exec('umount', ['--lazy', records])
  await host?.cleanUp()
})

async function fillDisk(): Promise<void> {
  const file = await open(join(records, 'filler'), 'w')
  const piece = Buffer.alloc(4096)
  try {
    for (;;) await file.write(piece)
  } catch {
    expect((await statfs(records)).bavail).toBe(0)
  } finally {
    await file.close()
  }
}

const makeRoom = () => rm(join(records, 'filler'), { force: true })

async function collect(events: AsyncIterable<RunEvent>): Promise<RunEvent[]> {
  const all: RunEvent[] = []
  for await (const event of events) all.push(event)
  return all
}

/** Waits inside until the file is there, then says `lines` times 1 KiB, and leaves another file. */
const talkative = (lines: number) => `
import os, time
while not os.path.exists("/tmp/go"): time.sleep(0.02)
for i in range(${lines}): print(str(i).rjust(1023, "."), flush=(i % 64 == 0))
print("end", flush=True)
open("/tmp/said", "w").close()`

async function start(code: string) {
  const { sandbox } = await core.sandboxes.create(wanted(), core.caller)
  const run = await core.services.runs.start(sandbox, { code, language: 'python' })
  const go = () =>
    sandbox.use({ cause: 'file', what: 'a test' }, (guest) => guest.files.write('/tmp/go', 'go'))
  // Its beginning is in the journal.
  await expect.poll(() => run.view().state, { timeout: 20_000 }).toBe('running')
  return { sandbox, run, go }
}

describe('a full disk', () => {
  test('a run continues, its readers get an error, and with room again no event is missing', async () => {
    const { sandbox, run, go } = await start(talkative(2048))
    await fillDisk()
    await go()
    await expect(run.result()).rejects.toMatchObject({ code: 'no_space' })
    // The server serves on meanwhile.
    await sandbox.use({ cause: 'file', what: 'a test' }, (guest) => guest.files.stat('/tmp/go'))
    expect(run.view().state).toBe('running')
    await makeRoom()
    const events = await collect(run.events())
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index))
    expect(events.at(-1)).toMatchObject({ type: 'exit', exitCode: 0 })
    const said = events.map((event) => (event.type === 'stdout' ? event.data : '')).join('')
    expect(said.length).toBe(2048 * 1024 + 4)
    expect(run.view()).toMatchObject({ state: 'finished', exitCode: 0 })
    await sandbox.delete()
  })

  test('what is more than the agent can keep is left out, and the run says so', async () => {
    const { sandbox, run, go } = await start(talkative(9 * 1024))
    await fillDisk()
    await go()
    await expect(run.result()).rejects.toMatchObject({ code: 'no_space' })
    // It has printed everything by then, without a reader.
    const hasSaid = (guest: Guest) =>
      guest.files.stat('/tmp/said').then(
        () => true,
        () => false,
      )
    await expect
      .poll(() => sandbox.use({ cause: 'file', what: 'a test' }, hasSaid), { timeout: 60_000 })
      .toBe(true)
    await makeRoom()
    const { exitCode, truncated, stdout } = await run.result()
    expect({ exitCode, end: stdout.slice(-5) }).toEqual({ exitCode: 0, end: '\nend\n' })
    expect(truncated?.stdoutBytes).toBeGreaterThan(MIB)
    await sandbox.delete()
  })

  test('a run that cannot be recorded is refused, and the server continues', async () => {
    const { sandbox } = await core.sandboxes.create(wanted(), core.caller)
    const code = 'print(1)'
    // As if it had been used up: with it all of these runs would find room.
    await rm(join(records, 'reserve'), { recursive: true, force: true })
    await fillDisk()
    const outcomes: unknown[] = []
    // Until the space that the databases have in reserve is used up too.
    for (let i = 0; i < 5_000 && outcomes.length < 20; i++) {
      const run = core.services.runs.start(sandbox, { code, language: 'python' })
      await run.then((started) => started.result()).catch((error: unknown) => outcomes.push(error))
    }
    expect(outcomes).toHaveLength(20)
    for (const outcome of outcomes) expect(outcome).toMatchObject({ code: 'no_space' })
    await sandbox.delete().catch(() => {})
    await sleep(100)
    await makeRoom()
    const next = await core.sandboxes.create(wanted(), core.caller)
    const run = await core.services.runs.start(next.sandbox, { code, language: 'python' })
    expect((await run.result()).stdout).toBe('1\n')
    await next.sandbox.delete()
  })
})
