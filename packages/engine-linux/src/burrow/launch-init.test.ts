import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { chown, mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { testDataDir } from '../../../../tests/test-data-dir.ts'
import { findFirstProcess, killFirstProcess, waitForEnd } from '../process/first-process.ts'
import { getTemplate } from '../template/template-store.ts'
import { launchInit } from './launch-init.ts'

const template = await getTemplate(testDataDir, 'python')
const root = mkdtempSync(join(tmpdir(), 'dormouse-launch-'))
const tools = join(root, 'tools')
const START_TIME = 12_345

/**
 * Runs as the agent and says on the ready pipe whatever its argument says. It marks in its files that all is written.
 */
const FAKE = `
import os, sys
words = eval(sys.argv[1])
# The last is that of the listing itself.
fds = sorted(os.listdir("/proc/self/fd"))[:-1]
os.set_blocking(3, False)
try:
    while words: words = words[os.write(3, words):]
except OSError: pass
open("/fds", "w").write(" ".join(fds))
open("/written", "w").close()
if "stay" in sys.argv:
    import time
    time.sleep(100_000)
`

beforeAll(async () => {
  for (const path of [tools, join(root, 'mount'), join(tools, 'run'), join(tools, 'memory')])
    await mkdir(path, { mode: 0o755 })
  writeFileSync(join(tools, 'fake.py'), FAKE)
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

let count = 0

async function launch(...args: readonly string[]) {
  const name = join(root, `burrow-${count++}`)
  const { uidBase } = template.manifest
  for (const part of ['upper', 'work', 'link']) {
    await mkdir(join(name, part), { recursive: true, mode: 0o755 })
    await chown(join(name, part), uidBase, uidBase)
  }
  const launched = launchInit({
    cwd: name,
    config: {
      hostname: 'launch-test',
      root: join(root, 'mount'),
      overlay: `lowerdir=${template.rootfs},upperdir=upper,workdir=work`,
      tools,
      link: join(name, 'link'),
      pid_file: join(name, 'pid'),
      end_file: join(name, 'end'),
      monotonic_ns: '0',
      boottime_ns: '0',
      agent: ['/usr/bin/python3', '-S', '/.dormouse/fake.py', ...args],
      env: ['PATH=/usr/bin'],
    },
  })
  launched.catch(() => {})
  // The configuration leaves first. Then nothing is read before all is written, so that whatever can arrive together
  // does.
  for (let turn = 0; turn < 3; turn++) await setImmediate()
  const wait = new Int32Array(new SharedArrayBuffer(4))
  const deadline = Date.now() + 20_000
  while (!existsSync(join(name, 'upper', 'written')) && Date.now() < deadline) Atomics.wait(wait, 0, 0, 5)
  const recorded = await findFirstProcess(join(name, 'pid'))
  const end = async () => {
    if (recorded === undefined) return
    await killFirstProcess(recorded)
    await waitForEnd(recorded, 10_000)
  }
  return { launched, recorded, end, upper: join(name, 'upper') }
}

/** What root of the burrow gets who has every capability there, which no process of a sandbox has. */
const ATTACK = `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
DETACH, REMOUNT, BIND = 2, 32, 4096
def outcome(result): return "done" if result == 0 else errno.errorcode[ctypes.get_errno()]
for path in (b"/.dormouse/run", b"/.dormouse", b"/dev"): print("unmount", path.decode(), outcome(libc.umount2(path, DETACH)))
print("make writable", outcome(libc.mount(None, b"/.dormouse", None, REMOUNT | BIND, None)))
`

test('no privilege inside undoes a mount or makes it writable', async () => {
  const { launched, end } = await launch(`b'1'`, 'stay')
  const { pid } = await launched
  const inside = ['--target', String(pid), '--user', '--mount', '/usr/bin/python3', '-S', '-c', ATTACK]
  const said = execFileSync('nsenter', inside, { encoding: 'utf8' })
  await end()
  expect(said.trim().split('\n')).toEqual([
    'unmount /.dormouse/run EINVAL',
    'unmount /.dormouse EINVAL',
    'unmount /dev EINVAL',
    'make writable EPERM',
  ])
})

describe('an agent in hostile hands', () => {
  test.each([
    ['a forged pid', `b'\\n' * 8000 + b'pid 1 ${START_TIME}\\n1'`],
    ['a forged pid in front of everything', `b'pid 1 ${START_TIME}\\n' * 1000 + b'1'`],
    ['a forged error', `b'error it was the neighbour\\n1'`],
    ['megabytes', `b'1' * 4_000_000`],
  ])(
    'says %s: PID 1 is the one that dormouse-init has recorded, or the start fails',
    async (_what, words) => {
      const { launched, recorded, end } = await launch(words, 'stay')
      const outcome = await launched.catch((error: unknown) => error)
      await end()
      expect(recorded).toBeDefined()
      if (outcome instanceof Error) {
        expect(outcome).toMatchObject({ code: 'burrow_start_failed' })
        expect(outcome.message).not.toMatch(/neighbour|forged/)
      } else expect(outcome).toEqual(recorded)
    },
  )

  test('says that it is ready and then anything: the start succeeds with the recorded PID 1', async () => {
    const { launched, recorded, end } = await launch(
      `b'1\\npid 1 ${START_TIME}\\nerror x\\n' * 10_000`,
      'stay',
    )
    const first = await launched
    await end()
    expect(first).toEqual(recorded)
  })

  test('has no descriptor of the host but the ready pipe', async () => {
    const { launched, end, upper } = await launch(`b'1'`, 'stay')
    await launched
    expect(readFileSync(join(upper, 'fds'), 'utf8')).toBe('0 1 2 3')
    await end()
  })

  test('ends without a word: the start fails', async () => {
    const { launched } = await launch(`b''`)
    await expect(launched).rejects.toMatchObject({
      code: 'burrow_start_failed',
      message: expect.stringContaining('ended before it was ready'),
    })
  })
})
