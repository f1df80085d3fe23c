import { availableParallelism } from 'node:os'
import { newSandboxId } from '@dormouse/contracts'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Burrow } from '../engine.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const MIB = 1024 ** 2
const GIB = 1024 ** 3

/** What the programs that people use to look at a machine say, and what libraries ask to size their thread pools. */
const LOOK = `
import json, os, shutil, subprocess
def sh(*command): return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
def cgroup(name): return open("/sys/fs/cgroup/" + name).read().strip()
def look():
    meminfo = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in open("/proc/meminfo")}
    total, used, free = shutil.disk_usage("/")
    df = sh("df", "--block-size=1", "--output=size,used", "/")
    return {
        "memory": [meminfo["MemTotal"], os.sysconf("SC_PHYS_PAGES") * 4096, int(cgroup("memory.max"))],
        "swap": [meminfo["SwapTotal"], int(cgroup("memory.swap.max"))],
        "free": [meminfo["MemFree"], meminfo["MemAvailable"], os.sysconf("SC_AVPHYS_PAGES") * 4096],
        "used": int(cgroup("memory.current")),
        "cpus": [os.cpu_count(), len(os.sched_getaffinity(0)), int(sh("nproc")[0]), int(sh("nproc", "--all")[0]),
                 int(sh("getconf", "_NPROCESSORS_ONLN")[0]), open("/proc/cpuinfo").read().count("processor\\t:")],
        "online": open("/sys/devices/system/cpu/online").read().strip(),
        "cpu.max": cgroup("cpu.max"),
        "pids.max": cgroup("pids.max"),
        "disk": [total, used, int(df[2]), int(df[3])],
        "type": sh("stat", "--file-system", "--format=%T", "/"),
        "files": [os.statvfs("/").f_files, os.statvfs("/").f_files - os.statvfs("/").f_ffree],
    }
`

interface Look {
  readonly memory: number[]
  readonly swap: number[]
  readonly free: number[]
  readonly used: number
  readonly cpus: number[]
  readonly online: string
  readonly 'cpu.max': string
  readonly 'pids.max': string
  readonly disk: number[]
  readonly type: string[]
  readonly files: number[]
}

async function look({ guest }: Burrow): Promise<Look> {
  const { stdout, stderr } = await guest.runs.run({ code: `${LOOK}\nprint(json.dumps(look()))` })
  expect(stderr).toBe('')
  return JSON.parse(stdout)
}

export function describeShownLimits(factory: EngineFactory): void {
  describe('limits as programs inside see them', () => {
    const shared = useSharedBurrow(factory, { limits: { memoryBytes: 512 * MIB, cpus: 0.5, pids: 300 } })
    const cpus = (wanted: number) => Array(6).fill(Math.min(wanted, availableParallelism()))
    beforeAll(() => shared.burrow.showDisk({ bytes: 5 * GIB, files: 1_000, usedBytes: GIB, usedFiles: 10 }))

    test('memory, CPUs, processes and disk are those of the sandbox', async () => {
      expect(await look(shared.burrow)).toMatchObject({
        memory: Array(3).fill(512 * MIB),
        swap: [0, 0],
        cpus: cpus(1),
        online: '0',
        'cpu.max': '50000 100000',
        'pids.max': '300',
        disk: [5 * GIB, GIB, 5 * GIB, GIB],
        type: ['overlayfs'],
        files: [1_000, 10],
      })
    })

    test('what the sandbox uses counts as used, and cached files as available', async () => {
      const burrow = await shared.create({ limits: { memoryBytes: GIB } })
      await burrow.guest.runs.run({ code: 'b = bytearray(300 * 2**20)' })
      await burrow.guest.runs.run({ code: 'head -c 200M /dev/zero > /root/zeros', language: 'bash' })
      await burrow.usage()
      const { free, used } = await look(burrow)
      const [memFree = 0, memAvailable = 0, available = 0] = free
      expect(used).toBeGreaterThan(450 * MIB)
      expect(memFree).toBeLessThan(GIB - 450 * MIB)
      expect(memAvailable).toBeLessThan(GIB - 300 * MIB)
      expect(memAvailable).toBeGreaterThan(memFree + 150 * MIB)
      expect(Math.abs(available - memAvailable)).toBeLessThan(MIB)
    })

    test('a changed limit is visible at once', async () => {
      const burrow = await shared.create({ limits: { memoryBytes: 256 * MIB, cpus: 1 } })
      await burrow.setLimits({ memoryBytes: 768 * MIB, cpus: 2, pids: 200 })
      burrow.showDisk({ bytes: 2 * GIB, files: 5_000 })
      expect(await look(burrow)).toMatchObject({
        memory: Array(3).fill(768 * MIB),
        cpus: cpus(2),
        'cpu.max': '200000 100000',
        'pids.max': '200',
        disk: [2 * GIB, 0, 2 * GIB, 0],
      })
    })

    test('after a wake and in a fork, they are the new limits', async () => {
      const burrow = await shared.create({ limits: { memoryBytes: 256 * MIB } })
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      const limits = { memoryBytes: 640 * MIB, cpus: 2, pids: 250 }
      for (const sandboxId of [burrow.sandboxId, newSandboxId()]) {
        const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId, limits }))
        expect(await look(woken)).toMatchObject({
          memory: Array(3).fill(640 * MIB),
          cpus: cpus(2),
          'pids.max': '250',
        })
      }
    })

    test('a program that has such files open sleeps and reads on', async () => {
      const burrow = await shared.create({ limits: { memoryBytes: 256 * MIB } })
      const code = `
import os
names = ["/proc/meminfo", "/proc/cpuinfo", "/sys/fs/cgroup/memory.max", "/sys/devices/system/cpu/online"]
files = [open(name) for name in names]
beginning = [file.readline() for file in files]
os.chdir("/sys/fs/cgroup")
def again():
    for file in files: file.seek(0)
    return [file.readline() for file in files]
print(beginning == again())`
      expect((await burrow.guest.runs.run({ code })).stdout).toBe('True\n')
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      const limits = { memoryBytes: 2 * GIB, cpus: 2 }
      const woken = shared.hold(
        await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId, limits }),
      )
      const after =
        'print(again()[0].split()[1], again()[2].strip(), os.getcwd(), open("memory.max").read().strip())'
      expect((await woken.guest.runs.run({ code: after })).stdout).toBe(
        `${2 * 1024 ** 2} ${2 * GIB} /sys/fs/cgroup ${2 * GIB}\n`,
      )
    })
  })
}
