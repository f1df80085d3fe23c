import { setTimeout as sleep } from 'node:timers/promises'
import { newSandboxId } from '@dormouse/contracts'
import { afterEach, describe, expect, test } from 'vitest'
import type { Burrow, Engine } from '../engine.ts'
import { runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { startRun } from './start-run.ts'
import { NETWORK_HELPERS, TestGate } from './test-gate.ts'

export function describeAdopt(factory: EngineFactory): void {
  const { keepsUnsynced = true } = factory
  describe('adopt', () => {
    const engines: Engine[] = []
    const open = async () => {
      const engine = await factory.open()
      engines.push(engine)
      return engine
    }
    const create = (engine: Engine): Promise<Burrow> =>
      engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', limits: { pids: 100 } })

    afterEach(async () => {
      for (const engine of engines.splice(0)) await engine[Symbol.asyncDispose]()
      await factory.dispose()
    })

    test('a new engine adopts a burrow with its variables and an active run', async () => {
      const before = await open()
      const burrow = await create(before)
      await burrow.guest.runs.run({ code: 'x = object(); address = id(x)' })
      const slow = 'import time\nfor i in range(5):\n  print(i, flush=True); time.sleep(0.2)'
      const runId = await startRun(burrow.guest, { code: slow })
      await before[Symbol.asyncDispose]()

      const { burrows, lost } = await (await open()).adoptBurrows()
      expect(lost).toEqual([])
      expect(burrows.map(({ id, sandboxId, limits }) => ({ id, sandboxId, limits }))).toEqual([
        { id: burrow.id, sandboxId: burrow.sandboxId, limits: burrow.limits },
      ])
      const [adopted] = burrows
      let stdout = ''
      let lastSeq = -1
      for await (const event of adopted!.guest.runs.events(runId)) {
        expect(event.seq).toBe(lastSeq + 1)
        lastSeq = event.seq
        if (event.type === 'stdout') stdout += event.data
      }
      expect(stdout).toBe('0\n1\n2\n3\n4\n')
      expect((await adopted!.guest.runs.run({ code: 'print(id(x) == address)' })).stdout).toBe('True\n')
      await adopted!.destroy()
      expect(await factory.traces()).toEqual([])
    })

    test('a frozen sandbox can be saved, and is adopted frozen', async () => {
      const before = await open()
      const burrow = await create(before)
      await burrow.guest.runs.run({ code: 'x = 7' })
      await burrow.freeze()
      const { burrow: next } = await before.snapshot(burrow, { leave: 'frozen' })
      await before[Symbol.asyncDispose]()
      const [adopted] = (await (await open()).adoptBurrows()).burrows
      expect(adopted!.id).toBe(next!.id)
      const { cpuMs } = await adopted!.usage()
      await sleep(300)
      expect((await adopted!.usage()).cpuMs - cpuMs).toBeLessThan(5)
      await adopted!.thaw()
      expect(await runPython(adopted!.guest, 'print(x)')).toBe('7\n')
    })

    test('an engine that adopts a burrow can open its gate again', async () => {
      const before = await open()
      const burrow = await create(before)
      const greeting = `${NETWORK_HELPERS}\nprint(dial("192.0.2.7", 80).recv(9))`
      const gate = await TestGate.at(burrow)
      expect(await runPython(burrow.guest, greeting)).toBe("b'hello'\n")
      // A server that ends leaves a burrow behind, and no sockets.
      await before[Symbol.asyncDispose]()
      await gate[Symbol.asyncDispose]()
      const [adopted] = (await (await open()).adoptBurrows()).burrows
      await using _open = await TestGate.at(adopted!)
      expect(await runPython(adopted!.guest, greeting)).toBe("b'hello'\n")
    })

    test('a burrow that was killed meanwhile is reported as lost and removed, and its files are kept', async () => {
      const before = await open()
      const burrow = await create(before)
      const write =
        'import os; open("/root/kept", "w").write("here"); os.sync(); open("/root/late", "w").write("too")'
      await burrow.guest.runs.run({ code: write })
      await before[Symbol.asyncDispose]()
      await factory.killBurrow(burrow.id)

      const engine = await open()
      const { burrows, lost } = await engine.adoptBurrows()
      expect(burrows).toEqual([])
      const [{ filesSnapshotId } = {}] = lost
      const { id, sandboxId } = burrow
      expect(lost).toEqual([{ id, sandboxId, end: { reason: 'killed' }, filesSnapshotId }])
      expect(await factory.traces()).toEqual([])
      const booted = await engine.restore(filesSnapshotId!, { sandboxId })
      const { stdout } = await booted.guest.runs.run({ code: 'print(open("/root/kept").read())' })
      expect(stdout).toBe('here\n')
      if (keepsUnsynced)
        expect(await runPython(booted.guest, 'print(open("/root/late").read())')).toBe('too\n')
      await booted.destroy()
      expect((await engine.adoptBurrows()).lost).toEqual([])
    })

    test('adopting returns nothing when there are no burrows', async () => {
      expect(await (await open()).adoptBurrows()).toEqual({ burrows: [], lost: [], undone: [] })
    })
  })
}
