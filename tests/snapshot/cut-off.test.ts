import { readFileSync } from 'node:fs'
import { mkdtemp, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { LinuxBurrow } from '../../packages/engine-linux/src/burrow/linux-burrow.ts'
import { findHierarchies } from '../../packages/engine-linux/src/cgroup/find-hierarchies.ts'
import { findCriu } from '../../packages/engine-linux/src/criu/find-criu.ts'
import { FailureLog } from '../../packages/engine-linux/src/host/failure-log.ts'
import { findProcess, type ThreadStatus } from '../../packages/engine-linux/src/process/process-status.ts'
import { Dumper } from '../../packages/engine-linux/src/snapshot/dumper.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { sendSignal } from '../send-signal.ts'
import { testDataDir } from '../test-data-dir.ts'

const factory = await linuxFactory()
const hierarchies = await findHierarchies()
let engine: Engine
let burrow: Burrow
beforeAll(async () => {
  engine = await factory.open()
})
beforeEach(async () => {
  burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  // Enough that a dump takes a while. Shared memory is not moved ahead of it.
  const run = await burrow.guest.runs.run({
    code: 'import mmap, os; data = mmap.mmap(-1, 200 << 20); data.write(os.urandom(200 << 20)); open("/root/f", "w").write("kept")',
  })
  expect(run.exitCode).toBe(0)
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** The CRIU that is at work in a burrow: a member of a cgroup of dumpers that is in a pid namespace of its own. */
async function findCriuAtWork(): Promise<ThreadStatus> {
  for (;;) {
    for (const directory of await factory.dumperCgroups()) {
      const pids = read(join(directory, 'cgroup.procs')).split('\n').filter(Boolean)
      for (const pid of pids.map(Number)) {
        const found = findProcess(pid)
        if (found?.insidePid !== undefined) return found
      }
    }
    await sleep(1)
  }
}

describe('a CRIU that saves', () => {
  test('has few capabilities over the host, limits of its own, and a deadline after which the burrow is gone', async () => {
    const linux = burrow as LinuxBurrow
    const imagesDir = await mkdtemp(join(factory.stateDir, 'dump-'))
    const criu = await findCriu(testDataDir)
    await using dumper = new Dumper(criu!, {
      hierarchies,
      cgroupName: factory.layout.cgroupName,
      failures: new FailureLog(),
      ownCgroups: new Set(),
    })
    await linux.quiesce()
    const dump = await dumper.take()
    await dump.allowMemory(2 ** 30)
    await linux.freezeInSave()
    const { first, freezerDir } = linux
    const saved = dump.run({
      first,
      freezerDir,
      imagesDir,

      deadlineMs: 2_000,
      hasVolumes: false,
    })
    const atWork = await findCriuAtWork()
    sendSignal(atWork.pid, 'SIGSTOP')

    const { capabilities, hasNoNewPrivileges } = findProcess(atWork.pid)!
    // SYS_ADMIN, SYS_PTRACE, and those over files and uids; no SYS_MODULE, NET_ADMIN, SYS_RAWIO, SYS_TIME, MKNOD,
    // SYS_BOOT, BPF.
    const numbers = [...Array(64).keys()].filter((number) => (capabilities >> BigInt(number)) & 1n)
    expect(numbers).toEqual([1, 3, 6, 7, 19, 21])
    expect(hasNoNewPrivileges).toBe(true)
    const name = /dumper-[^\n]+/.exec(await readFile(`/proc/${atWork.pid}/cgroup`, 'utf8'))![0]
    const own = async () =>
      (await factory.dumperCgroups()).filter((directory) => basename(directory) === name)
    const directories = await own()
    for (const directory of directories)
      expect(read(join(directory, 'cgroup.procs')).split('\n')).toContain(String(atWork.pid))
    const limits = ['pids.max', 'memory.limit_in_bytes', 'memory.max'].map((file) =>
      directories.map((directory) => Number(read(join(directory, file)))),
    )
    expect(limits.flat()).toContain(16)
    expect(limits.flat()).toContain(2 ** 30 + 2 ** 29)

    expect(await saved).toMatchObject({ isCutOff: true })
    await linux.resumeAfterFailedSave({ areStopped: false })
    expect(await burrow.ended).toEqual({ reason: 'killed' })
    await expect.poll(own).toEqual([])
    await burrow.destroy()
  })

  test('killed in the middle: the burrow ends, its files can be saved, nothing is left', async () => {
    const saving = engine.snapshot(burrow, { leave: 'running' })
    const refused = expect(saving).rejects.toMatchObject({ code: 'burrow_ended' })
    sendSignal((await findCriuAtWork()).pid, 'SIGKILL')
    await refused
    expect(await burrow.ended).toEqual({ reason: 'killed' })
    const { snapshot } = await engine.snapshot(burrow, { kind: 'files', leave: 'gone' })
    const booted = await engine.restore(snapshot.id, { sandboxId: burrow.sandboxId })
    expect((await booted.guest.runs.run({ code: 'print(open("/root/f").read())' })).stdout).toBe('kept\n')
    await booted.destroy()
    await expect.poll(() => factory.traces()).toEqual([])
  })
})
