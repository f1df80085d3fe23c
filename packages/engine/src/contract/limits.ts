import { describe, expect, test } from 'vitest'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const MIB = 1024 ** 2

export function describeLimits(factory: EngineFactory): void {
  describe('limits', () => {
    const shared = useSharedBurrow(factory)

    test('the defaults are 1 GiB, 1 cpu and 512 pids', () => {
      expect(shared.burrow.limits).toEqual({ memoryBytes: 1024 * MIB, cpus: 1, pids: 512 })
    })

    test('memory: exceeding the limit ends only that kernel, with the reason', async () => {
      const burrow = await shared.create({ limits: { memoryBytes: 256 * MIB } })
      const marker = await burrow.guest.processes.start({ args: ['sleep', '1000'] })
      const run = await burrow.guest.runs.run({ code: 'b = bytearray(400 * 2**20)' })
      expect(run).toMatchObject({
        exitCode: 137,
        error: { name: 'KernelDied', message: expect.stringMatching(/memory/i) },
      })
      expect((await burrow.usage()).oomKills).toBeGreaterThan(0)
      expect((await burrow.guest.runs.run({ code: 'print("alive")' })).stdout).toBe('alive\n')
      const processes = await burrow.guest.processes.list()
      expect(processes.find(({ processId }) => processId === marker)?.state).toBe('running')
    })

    test('pids: a process above the limit fails to start, and the burrow continues', async () => {
      const burrow = await shared.create({ limits: { pids: 40 } })
      const code =
        'import subprocess\ntry:\n  ps = [subprocess.Popen(["sleep", "100"]) for _ in range(100)]\nexcept OSError as e:\n  print(e.errno)'
      expect((await burrow.guest.runs.run({ code })).stdout).toBe('11\n')
      expect((await burrow.usage()).pids).toBeLessThanOrEqual(40)
      expect((await burrow.guest.runs.run({ code: 'print("alive")' })).stdout).toBe('alive\n')
    })

    test('cpu: two busy processes on half a cpu get about half a cpu', async () => {
      const burrow = await shared.create({ limits: { cpus: 0.5 } })
      await burrow.guest.runs.run({ code: 'print(1)' })
      const before = await burrow.usage()
      const code = 'timeout 2 sh -c "while :; do :; done" & timeout 2 sh -c "while :; do :; done" & wait'
      await burrow.guest.runs.run({ code, language: 'bash' })
      const usedMs = (await burrow.usage()).cpuMs - before.cpuMs
      expect(usedMs).toBeGreaterThan(300)
      expect(usedMs).toBeLessThan(1600)
    })

    test('limits of a running burrow can be changed, and usage is reported', async () => {
      const burrow = await shared.create({ limits: { memoryBytes: 256 * MIB } })
      await burrow.setLimits({ memoryBytes: 768 * MIB })
      expect(burrow.limits).toMatchObject({ memoryBytes: 768 * MIB, pids: 512 })
      const code = 'b = bytearray(400 * 2**20); print(len(b))'
      expect((await burrow.guest.runs.run({ code })).stdout).toBe(`${400 * MIB}\n`)
      expect((await burrow.usage()).memoryBytes).toBeGreaterThan(400 * MIB)
    })

    test('a limit below the current usage, or out of bounds, is refused, and the old one applies', async () => {
      const burrow = await shared.create({ limits: { memoryBytes: 512 * MIB } })
      await burrow.guest.runs.run({ code: 'b = bytearray(300 * 2**20)' })
      await expect(burrow.setLimits({ memoryBytes: 0 })).rejects.toMatchObject({ code: 'invalid_argument' })
      await expect(burrow.setLimits({ memoryBytes: 128 * MIB })).rejects.toMatchObject({ code: 'conflict' })
      expect(burrow.limits.memoryBytes).toBe(512 * MIB)
      expect((await burrow.guest.runs.run({ code: 'print(len(b))' })).stdout).toBe(`${300 * MIB}\n`)
    })
  })
}
