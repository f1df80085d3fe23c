import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { LinuxBurrow } from '../../packages/engine-linux/src/burrow/linux-burrow.ts'
import { BurrowCgroup } from '../../packages/engine-linux/src/cgroup/burrow-cgroup.ts'
import { findHierarchies } from '../../packages/engine-linux/src/cgroup/find-hierarchies.ts'
import { findCriu } from '../../packages/engine-linux/src/criu/find-criu.ts'
import { FailureLog } from '../../packages/engine-linux/src/host/failure-log.ts'
import { dumpDeadlineMs } from '../../packages/engine-linux/src/snapshot/dump-process.ts'
import { Dumper } from '../../packages/engine-linux/src/snapshot/dumper.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'
import { withOrphan } from './foreign-process.ts'

const run = promisify(execFile)
const factory = await linuxFactory()
let engine: Engine
let burrow: Burrow
let orphan: number
beforeAll(async () => {
  engine = await factory.open()
  const made = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  ;({ burrow, pid: orphan } = await withOrphan(engine, made))
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

async function print(code: string): Promise<string> {
  const result = await burrow.guest.runs.run({ code })
  expect(result).toMatchObject({ exitCode: 0, stderr: '' })
  return result.stdout.trim()
}

/** What the orphan has counted to, in the file that the burrow's processes map. */
function count(): bigint {
  return readFileSync(join(factory.layout.burrow(burrow.id).upper, 'root/shared')).readBigUInt64LE()
}

test('a child of PID 1 that shares memory with the sandbox is refused before CRIU has touched anything', async () => {
  await print(`
import mmap, os, signal
file = os.open("/root/shared", os.O_RDWR); shared = mmap.mmap(file, 8)
got = []
signal.signal(signal.SIGCONT, lambda *_: got.append("SIGCONT"))`)
  await expect(engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({
    code: 'snapshot_refused',
    details: { pid: orphan, reason: expect.stringMatching(/not a descendant of the agent/) },
  })
  // A dump ends with SIGSTOP, which only SIGCONT takes back.
  expect(await print('print(got)')).toBe('[]')
  const before = count()
  await expect.poll(count).toBeGreaterThan(before)
})

test('a process outside the tree does not run while CRIU dumps the tree', async () => {
  const linux = burrow as LinuxBurrow
  const imagesDir = await mkdtemp(join(factory.stateDir, 'dump-'))
  const hierarchies = await findHierarchies()
  const criu = await findCriu(testDataDir)
  await using dumper = new Dumper(criu!, {
    hierarchies,
    cgroupName: factory.layout.cgroupName,
    failures: new FailureLog(),
    ownCgroups: new Set(),
  })
  await linux.quiesce()
  try {
    const dump = await dumper.take()
    await linux.freezeInSave()
    const before = count()
    const { first, freezerDir } = linux
    const target = { first, freezerDir, imagesDir, hasVolumes: false }
    const result = await dump.run({ ...target, deadlineMs: dumpDeadlineMs(0) })
    expect(result).toMatchObject({ exitCode: 0, isCutOff: false })
    expect(count()).toBe(before)
  } finally {
    await linux.resumeAfterFailedSave({ areStopped: true })
  }
  expect(await print('print(shared[:] != bytes(8))')).toBe('True')
})

describe('a process that was brought in from outside', () => {
  /** As one that a faulty restore would leave: no filter, no no_new_privs. Its parent ends, so PID 1 takes it in. */
  async function bringIn(into: Burrow): Promise<number> {
    const { first } = into as LinuxBurrow
    const enter = [
      '--target',
      String(first.pid),
      '--user',
      '--pid',
      '--mount',
      '--net',
      '--ipc',
      '--uts',
      '--cgroup',
    ]
    const { stdout } = await run('nsenter', [
      ...enter,
      '--',
      'sh',
      '-c',
      'sleep 1000 >/dev/null 2>&1 & echo $!',
    ])
    return Number(stdout)
  }

  test('is refused for what it lacks when it is in the cgroups, and for that when it is not', async () => {
    const other = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    const pid = await bringIn(other)
    const refusedFor = (reason: RegExp) =>
      expect(engine.snapshot(other, { leave: 'gone' })).rejects.toMatchObject({
        code: 'snapshot_refused',
        details: { pid, reason: expect.stringMatching(reason) },
      })
    await refusedFor(/not in the cgroup/)
    const { first } = other as LinuxBurrow
    const children = readFileSync(`/proc/${first.pid}/task/${first.pid}/children`, 'utf8').trim().split(' ')
    const sleeper = children.find((child) => readFileSync(`/proc/${child}/comm`, 'utf8') === 'sleep\n')
    const cgroup = new BurrowCgroup(await findHierarchies(), factory.layout.burrow(other.id).cgroup)
    for (const directory of cgroup.directories) await writeFile(join(directory, 'cgroup.procs'), sleeper!)
    await refusedFor(/seccomp filters/)
    await run('kill', ['-9', sleeper!])
    const { burrow: next } = await engine.snapshot(other, { leave: 'running' })
    await next!.destroy()
  })
})

test('a process that waits for a vforked child is refused, and saved when the child has started its program', async () => {
  const other = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  const code = `
import os, time
os.mkfifo("/root/fifo")
waiting = os.fork()
if waiting == 0:
    # The child shares our memory and opens this before it starts the program.
    os.posix_spawn("/bin/sleep", ["sleep", "1000"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/root/fifo", os.O_RDONLY, 0)])
    time.sleep(1000)
while "State:\\tD" not in open(f"/proc/{waiting}/status").read(): time.sleep(0.01)
print(waiting)`
  const pid = Number((await other.guest.runs.run({ code })).stdout)
  await expect(engine.snapshot(other, { leave: 'gone' })).rejects.toMatchObject({
    code: 'snapshot_refused',
    details: { pid, reason: expect.stringMatching(/vfork/) },
  })
  await other.guest.runs.run({ code: 'writer = open("/root/fifo", "w")' })
  const { burrow: next } = await engine.snapshot(other, { leave: 'running' })
  await next!.destroy()
})
