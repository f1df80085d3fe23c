import { newSandboxId } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import type { BurrowMemory } from '../burrow-usage.ts'
import type { Burrow } from '../engine.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const MIB = 1024 ** 2
const BLOCK_BYTES = 128 * MIB
/** Other memory use of the interpreters in the meantime is below this. */
const NOISE_BYTES = 32 * MIB

export function describeMemory(factory: EngineFactory): void {
  describe('private and shared memory', () => {
    const shared = useSharedBurrow(factory)
    const memoryOf = async (burrow: Burrow): Promise<BurrowMemory> => {
      const memory = await burrow.memory()
      if (memory === undefined) throw new Error('a burrow that is there has memory')
      return memory
    }
    const fill = `block = bytearray(b"x") * ${BLOCK_BYTES}`

    test('memory is private when written, and shared with siblings after a wake until written again', async () => {
      const burrow = await shared.create()
      const before = await memoryOf(burrow)
      await burrow.guest.runs.run({ code: fill })
      const full = await memoryOf(burrow)
      expect(full.privateBytes - before.privateBytes).toBeGreaterThan(BLOCK_BYTES - NOISE_BYTES)
      expect(full.sharedBytes).toBeGreaterThan(0)
      expect(full.proportionalBytes).toBeLessThanOrEqual(full.privateBytes + full.sharedBytes)

      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      expect(await burrow.memory()).toBeUndefined()
      const siblings = await Promise.all(
        [newSandboxId(), newSandboxId()].map(async (sandboxId) =>
          shared.hold(await shared.engine.restore(snapshot.id, { sandboxId })),
        ),
      )
      for (const sibling of siblings) {
        expect((await sibling.guest.runs.run({ code: 'print(block.count(b"x"))' })).stdout).toBe(
          `${BLOCK_BYTES}\n`,
        )
      }
      const [one, other] = await Promise.all(siblings.map(memoryOf))
      for (const memory of [one!, other!]) {
        expect(memory.privateBytes).toBeLessThan(full.privateBytes - BLOCK_BYTES + NOISE_BYTES)
        expect(memory.sharedBytes).toBeGreaterThan(BLOCK_BYTES)
        // Two processes share each page of the block.
        expect(memory.proportionalBytes).toBeLessThan(
          memory.privateBytes + memory.sharedBytes - BLOCK_BYTES / 3,
        )
      }

      await siblings[0]!.guest.runs.run({ code: `block[::4096] = b"y" * (${BLOCK_BYTES} // 4096)` })
      const changed = await memoryOf(siblings[0]!)
      expect(changed.privateBytes - one!.privateBytes).toBeGreaterThan(BLOCK_BYTES - NOISE_BYTES)
      expect((await memoryOf(siblings[1]!)).privateBytes).toBeLessThan(other!.privateBytes + NOISE_BYTES)
    })

    test('memory that forked processes share is counted once', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: fill })
      const alone = await memoryOf(burrow)
      const code =
        'import os, time\nfor _ in range(3):\n  if os.fork() == 0:\n    time.sleep(1000); os._exit(0)\nprint("forked")'
      expect((await burrow.guest.runs.run({ code })).stdout).toBe('forked\n')
      const together = await memoryOf(burrow)
      expect(together.privateBytes - alone.privateBytes).toBeLessThan(BLOCK_BYTES / 2)
    })

    test('is the same while a burrow is frozen', async () => {
      const burrow = await shared.create()
      const before = await memoryOf(burrow)
      await burrow.freeze()
      expect((await memoryOf(burrow)).privateBytes).toBeLessThan(before.privateBytes + NOISE_BYTES)
      await burrow.thaw()
    })
  })
}
