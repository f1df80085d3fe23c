import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { BurrowCgroup } from './burrow-cgroup.ts'
import { findHierarchies } from './find-hierarchies.ts'

const limits = { memoryBytes: 256 * 1024 ** 2, cpus: 0.5, pids: 64 }

describe('BurrowCgroup on this host', () => {
  const name = `dormouse-test-${process.pid}`
  const members: ReturnType<typeof spawn>[] = []

  afterEach(async () => {
    for (const member of members.splice(0)) member.kill('SIGKILL')
    await new BurrowCgroup(await findHierarchies(), name).remove()
  })

  const withMember = async () => {
    const cgroup = new BurrowCgroup(await findHierarchies(), name)
    await cgroup.create(limits)
    const member = spawn('sh', ['-c', 'while :; do :; done'], { stdio: 'ignore' })
    members.push(member)
    for (const directory of cgroup.directories)
      await writeFile(join(directory, 'cgroup.procs'), String(member.pid))
    return { cgroup, member }
  }

  test('counts its members and their time, freezes and thaws them, ends them, and is gone', async () => {
    const { cgroup, member } = await withMember()
    expect((await cgroup.usage()).pids).toBe(1)
    await cgroup.freeze()
    const before = await cgroup.usage()
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect((await cgroup.usage()).cpuMs - before.cpuMs).toBeLessThan(5)
    await cgroup.thaw()
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect((await cgroup.usage()).cpuMs).toBeGreaterThan(before.cpuMs + 20)
    const exited = once(member, 'exit')
    await cgroup.signal('SIGKILL')
    await exited
    await cgroup.remove()
    for (const directory of cgroup.directories)
      await expect(stat(directory)).rejects.toMatchObject({ code: 'ENOENT' })
  })

  test('kill reaches also those that are frozen', async () => {
    const { cgroup, member } = await withMember()
    const exited = once(member, 'exit')
    await cgroup.freeze()
    await cgroup.kill()
    member.kill('SIGKILL')
    expect((await exited)[1]).toBe('SIGKILL')
  })

  test('removing ends also a member that has not joined every hierarchy yet', async () => {
    const cgroup = new BurrowCgroup(await findHierarchies(), name)
    await cgroup.create(limits)
    const late = spawn('sleep', ['600'], { stdio: 'ignore' })
    members.push(late)
    await cgroup.kill()
    await writeFile(join(cgroup.directories[0]!, 'cgroup.procs'), String(late.pid))
    await cgroup.remove()
    expect(late.exitCode ?? late.signalCode ?? (await once(late, 'exit'))[1]).toBe('SIGKILL')
  })

  test('removing twice, or what was never made, is fine', async () => {
    const cgroup = new BurrowCgroup(await findHierarchies(), name)
    await cgroup.remove()
    await cgroup.remove()
  })
})

// This host's controllers are all taken by v1, so the v2 files are checked on a directory that only looks like a
// hierarchy.
describe('BurrowCgroup on v2', () => {
  let root: string
  afterEach(() => rm(root, { recursive: true }))

  test('writes the limits of v2 and lets controllers through on every level', async () => {
    root = await mkdtemp(join(tmpdir(), 'dormouse-v2-'))
    await mkdir(join(root, 'dormouse/x'), { recursive: true })
    const levels = ['', 'dormouse', 'dormouse/x']
    for (const level of levels)
      await writeFile(join(root, level, 'cgroup.controllers'), 'cpuset cpu io memory pids\n')
    const v2 = { path: root, controllers: new Set(['cpu', 'memory', 'pids']) }
    const cgroup = new BurrowCgroup({ v1: new Map(), v2 }, 'dormouse/x/bw-1')
    await cgroup.create(limits)
    const directory = join(root, 'dormouse/x/bw-1')
    expect(cgroup.directories).toEqual([directory])
    const read = (file: string) => readFile(join(directory, file), 'utf8')
    expect(await read('memory.max')).toBe(String(limits.memoryBytes))
    expect(await read('cpu.max')).toBe('50000 100000')
    expect(await read('pids.max')).toBe('64')
    for (const level of levels) {
      expect(await readFile(join(root, level, 'cgroup.subtree_control'), 'utf8')).toBe('+memory +cpu +pids')
    }

    await writeFile(join(directory, 'memory.high'), 'max')
    await cgroup.apply({ ...limits, atMemoryLimit: 'pause' }, limits)
    expect([await read('memory.high'), await read('memory.max')]).toEqual([
      String(limits.memoryBytes),
      String(320 * 1024 ** 2),
    ])
    await cgroup.apply(limits, { ...limits, atMemoryLimit: 'pause' })
    expect([await read('memory.high'), await read('memory.max')]).toEqual(['max', String(limits.memoryBytes)])
    await writeFile(join(directory, 'pids.max'), 'as it was')
    await cgroup.applyToNew({ ...limits, cpus: 1 }, limits)
    expect([await read('cpu.max'), await read('pids.max')]).toEqual(['100000 100000', 'as it was'])
    await writeFile(join(directory, 'memory.stat'), 'anon 7\nfile 100\nshmem 3\n')
    expect(await cgroup.anonymousBytes()).toBe(10)
    await writeFile(join(directory, 'memory.current'), '123\n')
    await writeFile(join(directory, 'memory.events'), 'low 0\noom 2\noom_kill 1\n')
    await writeFile(join(directory, 'cpu.stat'), 'usage_usec 5000\nuser_usec 1\n')
    await writeFile(join(directory, 'pids.current'), '3\n')
    expect(await cgroup.usage()).toEqual({
      memoryBytes: 123,
      memoryPeakBytes: 0,
      cpuMs: 5,
      pids: 3,
      oomKills: 1,
    })
  })
})
