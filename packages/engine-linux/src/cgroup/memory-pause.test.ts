import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { BurrowCgroup } from './burrow-cgroup.ts'
import { readNumber } from './controllers.ts'
import { findHierarchies } from './find-hierarchies.ts'
import { MemoryPause } from './memory-pause.ts'

const MIB = 1024 ** 2
const limits = { memoryBytes: 64 * MIB, cpus: 1, pids: 64, atMemoryLimit: 'pause' } as const
const name = `dormouse-pause-${process.pid}`

afterEach(async () => {
  const cgroup = new BurrowCgroup(await findHierarchies(), name)
  await cgroup.kill()
  await cgroup.remove()
})

const onV1 = (await findHierarchies()).v1.has('memory')

// Skip: with the memory controller on v2, Linux slows processes down instead of letting them wait.
test.runIf(onV1)(
  'processes wait at the limit, freeze with headroom, and continue with a higher limit',
  async () => {
    const cgroup = new BurrowCgroup(await findHierarchies(), name)
    await cgroup.create(limits)
    const pause = new MemoryPause(cgroup.memory)
    const enter = cgroup.directories.map((directory) => `echo $$ > ${directory}/cgroup.procs`).join(' && ')
    const grow = 'b = [bytearray(1 << 20) for _ in range(150)]; print(len(b), flush=True)'
    const member = spawn('sh', ['-c', `${enter} && exec python3 -c '${grow}'`], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    let printed = ''
    member.stdout.on('data', (chunk) => {
      printed += chunk
    })
    await expect.poll(() => pause.isWaiting(limits), { timeout: 20_000 }).toBe(true)
    expect((await cgroup.usage()).memoryBytes).toBeLessThanOrEqual(64 * MIB)

    const limit = join(cgroup.memory?.path ?? '', 'memory.limit_in_bytes')
    await pause.withHeadroom(
      () => limits,
      async () => {
        await cgroup.freeze()
        // What is written to stopped processes has room without anything that waits for it.
        await pause.giveAll(limits)
        expect(await readNumber(limit)).toBe(128 * MIB)
      },
    )
    expect(await cgroup.isFrozen()).toBe(true)
    expect((await cgroup.usage()).memoryBytes).toBeLessThan(128 * MIB)
    expect(await readNumber(limit)).toBeLessThan(128 * MIB)

    await cgroup.thaw()
    await cgroup.apply({ ...limits, memoryBytes: 256 * MIB }, limits)
    await expect.poll(() => printed, { timeout: 20_000 }).toBe('150\n')
    expect((await cgroup.usage()).oomKills).toBe(0)
  },
)
