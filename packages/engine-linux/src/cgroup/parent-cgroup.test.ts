import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { FailureLog } from '../host/failure-log.ts'
import { BurrowCgroup } from './burrow-cgroup.ts'
import { findHierarchies } from './find-hierarchies.ts'
import { ParentCgroup, sandboxShare } from './parent-cgroup.ts'

const MIB = 1024 ** 2

describe('ParentCgroup on this host', () => {
  // Two levels, as those of engines are; another first one, so that nothing else is in it.
  const name = `dormouse-parent-${process.pid}/x`
  const share = { memoryBytes: 96 * MIB, pids: 40 }
  const failures = new FailureLog()
  const cgroups: BurrowCgroup[] = []
  let parent: ParentCgroup

  afterEach(async () => {
    for (const cgroup of cgroups.splice(0)) {
      await cgroup.kill()
      await cgroup.remove()
    }
    await parent.remove()
  })

  async function burrow(id: string): Promise<BurrowCgroup> {
    const cgroup = new BurrowCgroup(await findHierarchies(), join(name, id))
    await cgroup.create({ memoryBytes: 80 * MIB, cpus: 1, pids: 30 })
    cgroups.push(cgroup)
    return cgroup
  }

  /** In the cgroup before it does anything. */
  function start(cgroup: BurrowCgroup, code: string) {
    const join = cgroup.directories.map((directory) => `echo $$ > ${directory}/cgroup.procs`).join(' && ')
    return spawn('sh', ['-c', `${join} && exec python3 -c '${code}'`], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
  }

  test('bounds the memory of two burrows that are each within their own limit', async () => {
    parent = new ParentCgroup({ hierarchies: await findHierarchies(), name, share, failures })
    await parent.prepare()
    const hold = 'import time; x = bytearray(60 << 20); print("held", flush=True); time.sleep(600)'
    const members = [start(await burrow('a'), hold), start(await burrow('b'), hold)]
    const ends = members.map((member) => once(member, 'exit'))
    const [[, signal]] = (await Promise.race(ends.map((end) => end.then((how) => [how])))) as [
      [unknown, string],
    ]
    expect(signal).toBe('SIGKILL')
    for (const member of members) member.kill('SIGKILL')
    await Promise.all(ends)
  })

  test('bounds how many processes there are together', async () => {
    parent = new ParentCgroup({ hierarchies: await findHierarchies(), name, share, failures })
    await parent.prepare()
    const fork = `
import os, time
n = 0
try:
    while n < 28:
        if os.fork() == 0: time.sleep(600)
        n += 1
except OSError: pass
print(n, flush=True); time.sleep(600)`
    const counts: number[] = []
    for (const id of ['a', 'b']) {
      const member = start(await burrow(id), fork)
      const [chunk] = (await once(member.stdout, 'data')) as [Buffer]
      counts.push(Number(chunk.toString()))
    }
    expect(counts[0]).toBe(28)
    expect(counts[1]).toBeLessThan(12)
  })

  test('has less weight than the host’s other groups, and is made again after it was removed', async () => {
    const hierarchies = await findHierarchies()
    parent = new ParentCgroup({ hierarchies, name, share, failures })
    await parent.prepare()
    await parent.remove()
    await parent.prepare()
    const cpu = hierarchies.v1.get('cpu')
    const file =
      cpu === undefined
        ? join(hierarchies.v2?.path ?? '', name, '../cpu.weight')
        : join(cpu, name, '../cpu.shares')
    expect(Number(await readFile(file, 'utf8'))).toBe(cpu === undefined ? 50 : 512)
    const memory = hierarchies.v1.get('memory')
    if (memory !== undefined)
      expect(Number(await readFile(join(memory, name, 'memory.limit_in_bytes'), 'utf8'))).toBe(
        share.memoryBytes,
      )
  })

  test('is removed only when nothing is left in it', async () => {
    const hierarchies = await findHierarchies()
    parent = new ParentCgroup({ hierarchies, name, share, failures })
    await parent.prepare()
    const cgroup = await burrow('a')
    const [directory = ''] = cgroup.directories
    await parent.remove()
    await stat(directory)
    await cgroup.remove()
    await parent.remove()
    for (const mount of [...hierarchies.v1.values(), hierarchies.v2?.path ?? '/'])
      expect(await readdir(mount)).not.toContain(name.split('/')[0])
  })
})

// As in burrow-cgroup.test.ts: a directory that only looks like a hierarchy.
test('ParentCgroup on v2 sets weights where it competes, limits below, and no limit that would end what runs', async () => {
  const root = await mkdtemp(join(tmpdir(), 'dormouse-v2-'))
  try {
    for (const level of ['', 'dormouse', 'dormouse/x']) {
      await mkdir(join(root, level), { recursive: true })
      await writeFile(join(root, level, 'cgroup.controllers'), 'cpu io memory pids\n')
      for (const file of ['cpu.weight', 'io.weight', 'memory.max', 'pids.max', 'cgroup.subtree_control'])
        await writeFile(join(root, level, file), '')
    }
    const hierarchies = { v1: new Map(), v2: { path: root, controllers: new Set(['cpu', 'memory', 'pids']) } }
    const read = (path: string) => readFile(join(root, 'dormouse', path), 'utf8')
    await writeFile(join(root, 'dormouse/x/memory.current'), '2000')
    const failures = new FailureLog()
    const share = { memoryBytes: 1000, pids: 7 }
    const prepare = () => new ParentCgroup({ hierarchies, name: 'dormouse/x', share, failures }).prepare()
    await prepare()
    expect([await read('cpu.weight'), await read('io.weight')]).toEqual(['50', 'default 50'])
    expect([await read('x/pids.max'), await read('x/memory.max')]).toEqual(['7', ''])
    await writeFile(join(root, 'dormouse/x/memory.current'), '500')
    await prepare()
    expect(await read('x/memory.max')).toBe('1000')
    expect(failures.counts).toEqual(new Map())
    // Writing to a directory fails, as writing a value does that the kernel refuses.
    await rm(join(root, 'dormouse/x/pids.max'))
    await mkdir(join(root, 'dormouse/x/pids.max'))
    await prepare()
    expect(failures.counts).toEqual(new Map([['limit', 1]]))
  } finally {
    await rm(root, { recursive: true })
  }
})

test('sandboxShare leaves the host its memory and some process ids', async () => {
  const all = await sandboxShare(0)
  const share = await sandboxShare(512 * MIB)
  expect(all.memoryBytes - share.memoryBytes).toBe(512 * MIB)
  expect(share.pids).toBeLessThanOrEqual(Number(await readFile('/proc/sys/kernel/pid_max', 'utf8')) - 1_024)
})
