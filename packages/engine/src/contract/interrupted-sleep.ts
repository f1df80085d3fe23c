import { setTimeout as sleep } from 'node:timers/promises'
import { newSandboxId } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import type { Burrow } from '../engine.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const print = async (burrow: Burrow, code: string) => (await burrow.guest.runs.run({ code })).stdout.trim()

const GROW = `
import os, zlib, threading, time
data = os.urandom(60_000_000); checksum = zlib.crc32(data); address = id(data); ticks = [0]
def tick():
    while True: ticks[0] += 1; time.sleep(0.001)
threading.Thread(target=tick, daemon=True).start()
open("/root/f", "w").write("kept")`
const LOOK = `
n = ticks[0]; time.sleep(0.1)
print(zlib.crc32(data) == checksum, id(data) == address, ticks[0] > n, open("/root/f").read())`
const SAME = 'True True True kept'

export function describeInterruptedSleep(factory: EngineFactory): void {
  describe('falling asleep', () => {
    const shared = useSharedBurrow(factory)
    const grown = async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: GROW })
      return burrow
    }

    test('calls are answered while a snapshot is prepared, and the sandbox does not notice it', async () => {
      const burrow = await grown()
      const preparing = shared.engine.prepareSnapshot(burrow)
      const answers: string[] = []
      let isPrepared = false
      const prepared = preparing.then(() => {
        isPrepared = true
      })
      do answers.push(await print(burrow, 'print(zlib.crc32(data) == checksum)'))
      while (!isPrepared)
      await prepared
      expect(new Set(answers)).toEqual(new Set(['True']))
      expect(await print(burrow, LOOK)).toBe(SAME)
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      const { sandboxId } = burrow
      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId }))
      expect(await print(woken, LOOK)).toBe(SAME)
      const forked = await shared.engine.fork(woken, { sandboxIds: [newSandboxId()] })
      for (const each of [forked.parent, ...forked.children])
        if (each !== undefined) expect(await print(shared.hold(each), LOOK)).toBe(SAME)
    })

    test('an abort ends the preparation; the sandbox runs on, and can be prepared again', async () => {
      const burrow = await grown()
      const abort = new AbortController()
      const preparing = shared.engine.prepareSnapshot(burrow, abort.signal)
      await sleep(30)
      abort.abort()
      await preparing.catch((error: unknown) => expect(error).toBe(abort.signal.reason))
      expect(await print(burrow, LOOK)).toBe(SAME)
      await shared.engine.prepareSnapshot(burrow)
      expect(await print(burrow, LOOK)).toBe(SAME)
    })

    test('an abort at any moment of a snapshot undoes it, or comes too late', async () => {
      let burrow = await grown()
      await shared.engine.prepareSnapshot(burrow)
      const before = new Set((await shared.engine.listSnapshots()).map(({ id }) => id))
      let undone = 0
      for (const afterMs of [0, 10, 30, 60, 100, 150, 400]) {
        const abort = new AbortController()
        setTimeout(() => abort.abort(), afterMs)
        try {
          const options = { leave: 'running', signal: abort.signal } as const
          const saved = await shared.engine.snapshot(burrow, options)
          before.add(saved.snapshot.id)
          if (saved.burrow === undefined) throw saved.resumeError
          burrow = shared.hold(saved.burrow)
        } catch (error) {
          expect(error).toBe(abort.signal.reason)
          undone += 1
        }
        expect(await print(burrow, LOOK)).toBe(SAME)
        expect(new Set((await shared.engine.listSnapshots()).map(({ id }) => id))).toEqual(before)
      }
      expect(undone).toBeGreaterThan(0)
    })
  })
}
