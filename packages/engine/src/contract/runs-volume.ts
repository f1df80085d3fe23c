import type { RunEvent } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import { collect, eventually, expectWholeJournal, runPython, textOf } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'
import { startRun } from './start-run.ts'

const MB = 1_000_000
const MIB = 1024 ** 2
/** How much the agent may grow: journals, buffers and slack of its allocator. */
const AGENT_GROWTH_BYTES = 96 * MIB

export function describeRunsVolume(factory: EngineFactory): void {
  describe('large output', () => {
    const shared = useSharedBurrow(factory)
    const lostBytes = (events: readonly RunEvent[]) =>
      events.reduce((sum, event) => sum + (event.type === 'truncated' ? event.bytes : 0), 0)

    test('a million lines keep their beginning and end, and missing bytes are counted', async () => {
      const run = await shared.guest.runs.run({ code: 'for i in range(1_000_000): print(i)' })
      expect(run.exitCode).toBe(0)
      expect(run.stdout).toMatch(/^0\n1\n2\n/)
      expect(run.stdout).toMatch(/\n999998\n999999\n$/)
      expect(run.stdout).toMatch(/\n… \d+ bytes left out …\n/)
      expect(run.stdout.length).toBeLessThan(5 * MIB)
      expect(run.truncated?.stdoutBytes).toBeGreaterThan(MB)
      expect(run.truncated?.stderrBytes).toBe(0)
    })

    test('many lines reach a fast reader completely, or marked as truncated', async () => {
      const events = await collect(shared.guest.runs.stream({ code: 'for i in range(200_000): print(i)' }))
      expectWholeJournal(events)
      const text = textOf(events, 'stdout')
      if (lostBytes(events) === 0) expect(text.length).toBe(1_288_890)
      else expect(text.length + lostBytes(events)).toBeGreaterThanOrEqual(1_288_890)
      expect(text.endsWith('199999\n')).toBe(true)
    })

    test('100 MB without a newline take bounded memory', async () => {
      const before = await shared.guest.info()
      const run = await shared.guest.runs.run({
        code: 'import sys\nfor _ in range(100): sys.stdout.write("x" * 1_000_000);',
      })
      expect(run.exitCode).toBe(0)
      expect(run.stdout.length).toBeLessThan(5 * MIB)
      expect(run.truncated?.stdoutBytes).toBeGreaterThan(95 * MB)
      expect(run.stdout).toMatch(/^x+\n… \d+ bytes left out …\nx+$/)
      expect((await shared.guest.info()).rssBytes).toBeLessThan(before.rssBytes + AGENT_GROWTH_BYTES)
    })

    test('100 MB of stderr from bash take bounded memory', async () => {
      const before = await shared.guest.info()
      const code = 'head -c 100000000 /dev/zero | tr "\\0" y >&2'
      const run = await shared.guest.runs.run({ code, language: 'bash' })
      expect(run.exitCode).toBe(0)
      expect(run.stdout.replace(/\n… \d+ bytes left out …\n/, '')).toBe('')
      const lost = (run.truncated?.stderrBytes ?? 0) + (run.truncated?.stdoutBytes ?? 0)
      expect(lost).toBeGreaterThan(95 * MB)
      expect((await shared.guest.info()).rssBytes).toBeLessThan(before.rssBytes + AGENT_GROWTH_BYTES)
    })

    test('a slow reader delays no other call, and learns what it missed', async () => {
      const code = 'for i in range(20): print(str(i) * 1_000_000)'
      const events = shared.guest.runs.stream({ code })[Symbol.asyncIterator]()
      const first = await events.next()
      const started = first.value as RunEvent & { type: 'start' }
      expect(started.type).toBe('start')
      // A second reader, which keeps up, sees the end of the run.
      await collect(shared.guest.runs.events(started.runId, { after: started.seq }))
      expect(await runPython(shared.guest, 'print("meanwhile")')).toBe('meanwhile\n')

      const rest = await collect({ [Symbol.asyncIterator]: () => events })
      expectWholeJournal([started, ...rest])
      expect(rest.filter(({ type }) => type === 'truncated')).toHaveLength(1)
      // The journal counts whole events, a little more than their text.
      const accounted = textOf(rest, 'stdout').length + lostBytes(rest)
      expect(accounted).toBeGreaterThanOrEqual(30_000_020)
      expect(accounted).toBeLessThan(31 * MB)
      expect(textOf(rest, 'stdout').endsWith('19\n')).toBe(true)
    })

    test('a late reader of a long journal gets one truncated event, then all events still held', async () => {
      const runId = await startRun(shared.guest, { code: 'for i in range(8): print(str(i) * 1_000_000)' })
      await collect(shared.guest.runs.events(runId))
      const late = await collect(shared.guest.runs.events(runId))
      expectWholeJournal(late)
      expect(late[0]?.type).toBe('truncated')
      expect(textOf(late, 'stdout').length).toBeGreaterThan(2 * MB)
      expect(textOf(late, 'stdout').length).toBeLessThan(5 * MIB)
    })
  })

  describe('finished runs', () => {
    const shared = useSharedBurrow(factory)

    test('are kept up to a bound in number and memory, and the oldest are dropped', async () => {
      const first = await shared.guest.runs.run({ code: 'print("first")' })
      const before = await shared.guest.info()
      const code = 'print("y" * 400_000)'
      const runIds: string[] = []
      for (let n = 0; n < 300; n += 1) runIds.push((await shared.guest.runs.run({ code })).runId)
      await expect(collect(shared.guest.runs.events(first.runId))).rejects.toMatchObject({
        code: 'not_found',
      })
      const last = await collect(shared.guest.runs.events(runIds.at(-1) ?? ''))
      expect(textOf(last, 'stdout')).toHaveLength(400_001)
      expect((await shared.guest.info()).rssBytes).toBeLessThan(before.rssBytes + AGENT_GROWTH_BYTES)
      const beyondTheEnd = { after: 1_000_000, follow: false }
      const asked = runIds.map((runId) => collect(shared.guest.runs.events(runId, beyondTheEnd)))
      const kept = (await Promise.allSettled(asked)).filter(({ status }) => status === 'fulfilled')
      expect(kept.length).toBeGreaterThan(20)
      expect(kept.length).toBeLessThanOrEqual(256)
    })
  })

  describe('replay', () => {
    const shared = useSharedBurrow(factory)
    const code = 'import sys\nfor i in range(5): print(i); print(-i, file=sys.stderr)\ndisplay(1)\n1 / 0'

    test('the events of a finished run can be read again from any seq', async () => {
      const runId = await startRun(shared.guest, { code })
      const all = await collect(shared.guest.runs.events(runId))
      expectWholeJournal(all)
      expect(all.length).toBeGreaterThan(12)
      for (let after = -1; after < all.length + 2; after += 1) {
        const again = await collect(shared.guest.runs.events(runId, { after }))
        expect(again).toEqual(all.slice(after + 1))
      }
    })

    test('a second reader follows an active run after a seq, and both see the same end', async () => {
      const slow = 'import time\nfor i in range(20): print(i); time.sleep(0.02)'
      const events: RunEvent[] = []
      let joined: Promise<RunEvent[]> | undefined
      for await (const event of shared.guest.runs.stream({ code: slow })) {
        events.push(event)
        const [start] = events
        if (events.length === 5 && start?.type === 'start')
          joined = collect(shared.guest.runs.events(start.runId, { after: 2 }))
      }
      expectWholeJournal(events)
      expect(await joined).toEqual(events.slice(3))
    })

    test('without follow, events end at the present end of an active run', async () => {
      const runId = await startRun(shared.guest, { code: 'print("so far")\nwhile True: pass' })
      const seen = await eventually('output', async () => {
        const events = await collect(shared.guest.runs.events(runId, { follow: false }))
        return events.some(({ type }) => type === 'stdout') && events
      })
      expect(seen.map(({ type }) => type)).toEqual(['start', 'stdout'])
      await shared.guest.runs.interrupt(runId)
    })

    test('leaving or aborting a stream does not end the run', async () => {
      const controller = new AbortController()
      const run = { code: 'import time\nfor i in range(10): print(i); time.sleep(0.03)' }
      let runId = ''
      for await (const event of shared.guest.runs.stream(run)) {
        if (event.type === 'start') runId = event.runId
        if (event.type === 'stdout') break
      }
      const aborted = shared.guest.runs.run(run, { signal: controller.signal })
      controller.abort()
      await expect(aborted).rejects.toMatchObject({ code: 'cancelled' })
      expect(textOf(await collect(shared.guest.runs.events(runId)), 'stdout')).toBe(
        '0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n',
      )
    })

    test('an unknown run is not found, and a run id can be used once', async () => {
      await expect(collect(shared.guest.runs.events('run-nobody'))).rejects.toMatchObject({
        code: 'not_found',
      })
      const runId = await startRun(shared.guest, { code: 'n = 1' })
      await expect(shared.guest.runs.run({ code: 'n = 2', runId })).rejects.toMatchObject({
        code: 'already_exists',
      })
      expect(await runPython(shared.guest, 'print(n)')).toBe('1\n')
    })
  })
}
