import { setTimeout as sleep } from 'node:timers/promises'
import { newSandboxId, newSnapshotId, type SandboxId } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import type { Burrow } from '../engine.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'
import { startRun } from './start-run.ts'

const print = async (burrow: Burrow, code: string) => (await burrow.guest.runs.run({ code })).stdout.trim()

/** A parent and a child that record every signal, and what the kernel reports to the parent about its child. */
const WATCH_SIGNALS = `
import os, signal, subprocess, sys, time
CHILD = '''
import signal, sys
def note(number, frame): print(signal.Signals(number).name, flush=True)
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, note)
print("ready", flush=True)
while True: signal.pause()
'''
child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
assert child.stdout.readline() == "ready\\n"
os.set_blocking(child.stdout.fileno(), False)
mine = []
for number in (signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, signal.SIGURG, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: mine.append(signal.Signals(number).name))
def said():
    try: return os.read(child.stdout.fileno(), 65536).decode().split()
    except BlockingIOError: return []
def noticed():
    time.sleep(0.3)
    told = os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WCONTINUED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
    codes = {os.CLD_STOPPED: "CLD_STOPPED", os.CLD_CONTINUED: "CLD_CONTINUED", os.CLD_EXITED: "CLD_EXITED"}
    return f"{mine} {said()} {[] if told is None else [codes.get(told.si_code, told.si_code)]}"
`

export function describeSleep(factory: EngineFactory): void {
  describe('sleep', () => {
    const shared = useSharedBurrow(factory)

    test('a sandbox has the same objects at the same addresses, and its files, after a sleep', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({
        code: 'x = {"a": [1, 2]}; address = id(x); open("/root/f", "w").write("kept")',
      })
      const { snapshot, burrow: gone } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      expect(gone).toBeUndefined()
      expect(await burrow.ended).toEqual({ reason: 'stored', snapshotId: snapshot.id })

      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
      expect(await print(woken, 'print(x, id(x) == address, open("/root/f").read())')).toBe(
        "{'a': [1, 2]} True kept",
      )
    })

    test('a sandbox that was frozen knows nothing of the run that was rehearsed before', async () => {
      const burrow = await shared.create()
      const hook = 'get_ipython().events.register("pre_run_cell", lambda info: seen.append(info.raw_cell))'
      await burrow.guest.runs.run({ code: `seen = []\n${hook}` })
      await burrow.guest.runs.run({ code: 'names = set(globals())' })
      const { burrow: frozen } = await shared.engine.snapshot(burrow, { leave: 'frozen' })
      if (frozen === undefined) throw new Error('the burrow is gone')
      shared.hold(frozen)
      await frozen.thaw()
      const code = 'print(len(In), seen, sorted(set(globals()) - names))'
      expect(await print(frozen, code)).toBe(`4 ['names = set(globals())', '${code}'] ['_i3', 'names']`)
    })

    test('a sleeping sandbox leaves nothing but its snapshot', async () => {
      const before = await factory.traces()
      const burrow = await shared.create()
      await shared.engine.snapshot(burrow, { leave: 'gone' })
      expect(await factory.traces()).toEqual(before)
    })

    test('a snapshot can be restored many times, also concurrently, independently', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'x = 1; open("/root/who", "w").write("nobody")' })
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      const copies = await Promise.all(
        [1, 2, 3].map(async () =>
          shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: newSandboxId() })),
        ),
      )
      const codes = copies.map(
        (_copy, i) => `x += ${i}; open("/root/who", "a").write("-${i}"); print(x, open("/root/who").read())`,
      )
      const seen = await Promise.all(copies.map((copy, i) => print(copy, codes[i] ?? '')))
      expect(seen).toEqual(['1 nobody-0', '2 nobody-1', '3 nobody-2'])
    })

    test('a sandbox continues in a new burrow after a snapshot, with its active run', async () => {
      const burrow = await shared.create()
      const slow = 'import time\nfor i in range(8):\n  print(i, flush=True); time.sleep(0.2)'
      const runId = await startRun(burrow.guest, { code: slow })
      const seqs: number[] = []
      let stdout = ''
      for await (const event of burrow.guest.runs.events(runId)) {
        seqs.push(event.seq)
        if (event.type === 'stdout') stdout += event.data
        if (stdout.includes('2')) break
      }
      const { burrow: next } = await shared.engine.snapshot(burrow, { leave: 'running' })
      for await (const event of shared.hold(next!).guest.runs.events(runId, { after: seqs.at(-1) ?? -1 })) {
        seqs.push(event.seq)
        if (event.type === 'stdout') stdout += event.data
      }
      expect(stdout).toBe('0\n1\n2\n3\n4\n5\n6\n7\n')
      expect(seqs).toEqual(seqs.map((_seq, index) => index))
    })

    test('later snapshots hold the changes, and each can still be restored', async () => {
      let burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'import hashlib; data = bytearray(b"\\1" * (64 << 20)); n = 0' })
      const snapshots = []
      for (let generation = 0; generation < 3; generation++) {
        const change = `data[${generation} << 20:(${generation} << 20) + 4096] = b"\\2" * 4096; n += 1; digest = hashlib.sha256(data).digest()`
        await burrow.guest.runs.run({ code: change })
        const { snapshot, burrow: next } = await shared.engine.snapshot(burrow, { leave: 'running' })
        snapshots.push(snapshot)
        burrow = shared.hold(next!)
      }
      expect(snapshots[2]?.parent).toBe(snapshots[1]?.id)
      for (const [index, snapshot] of snapshots.entries()) {
        const copy = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: newSandboxId() }))
        expect(await print(copy, 'print(n, hashlib.sha256(data).digest() == digest)')).toBe(
          `${index + 1} True`,
        )
        await copy.destroy()
      }
    })

    test('clocks: the monotonic clock omits the time asleep, the wall clock is correct', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'import time; m = time.monotonic(); w = time.time()' })
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      await sleep(1000)
      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
      const [monotonic, wall] = (await print(woken, 'print(time.monotonic() - m, time.time() - w)'))
        .split(' ')
        .map(Number)
      expect(monotonic).toBeGreaterThan(0)
      expect(wall! - monotonic!).toBeGreaterThan(0.95)
      const drift = Number(await print(woken, 'print(time.time())')) - Date.now() / 1000
      expect(Math.abs(drift)).toBeLessThan(2)
    })

    test('timers: a snapshot knows the earliest, and a restore can let the time since then pass', async () => {
      const burrow = await shared.create()
      const begun = Date.now()
      const waits = [30, 20, 40].map(
        (s) => `threading.Thread(target=time.sleep, args=(${s},), daemon=True).start()`,
      )
      const code = ['import threading, time', ...waits, 'm = time.monotonic(); w = time.time()'].join('\n')
      await burrow.guest.runs.run({ code })
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone', keepTimers: true })
      const { deadline } = snapshot
      expect(deadline?.getTime()).toBeGreaterThan(begun + 19_900)
      expect(deadline?.getTime()).toBeLessThan(Date.now() + 20_000)
      expect((await shared.engine.getSnapshot(snapshot.id)).deadline).toEqual(deadline)
      await sleep(1000)
      const options = { sandboxId: burrow.sandboxId, passTime: true }
      const woken = shared.hold(await shared.engine.restore(snapshot.id, options))
      const clocks = (await print(woken, 'print(time.monotonic() - m, time.time() - w)')).split(' ')
      const [monotonic, wall] = clocks.map(Number)
      expect(Math.abs(wall! - monotonic!)).toBeLessThan(0.9)
      const { snapshot: plain } = await shared.engine.snapshot(woken, { leave: 'gone' })
      expect(plain).not.toHaveProperty('deadline')
    })

    test('limits apply after a restore', async () => {
      const burrow = await shared.create({ limits: { memoryBytes: 256 * 1024 ** 2, pids: 64 } })
      const { burrow: next } = await shared.engine.snapshot(burrow, { leave: 'running' })
      const woken = shared.hold(next!)
      expect(woken.limits).toMatchObject({ memoryBytes: 256 * 1024 ** 2, pids: 64 })
      expect((await woken.usage()).pids).toBeGreaterThan(1)
      const run = await woken.guest.runs.run({ code: 'b = bytearray(400 << 20)' })
      expect(run).toMatchObject({ exitCode: 137, error: { name: 'KernelDied' } })
    })

    test('freeze stops all processes unnoticed, thaw continues them', async () => {
      const burrow = await shared.create()
      const code =
        'import threading, time, signal\nticks = []\ndef tick():\n  while True:\n    ticks.append(time.monotonic()); time.sleep(0.01)\nthreading.Thread(target=tick, daemon=True).start()'
      await burrow.guest.runs.run({ code })
      await burrow.freeze()
      await burrow.freeze()
      const frozen = await burrow.usage()
      await sleep(500)
      expect((await burrow.usage()).cpuMs - frozen.cpuMs).toBeLessThan(5)
      await burrow.thaw()
      await burrow.thaw()
      expect(Number(await print(burrow, 'print(len(ticks))'))).toBeGreaterThan(0)
      await burrow.freeze()
      await burrow.destroy()
    })

    test('a freeze at any moment of a snapshot delays and changes nothing', async () => {
      let burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'n = 0' })
      for (const [round, delayMs] of [0, 10, 20, 40, 60, 100].entries()) {
        const taking = shared.engine.snapshot(burrow, { leave: 'running' })
        await sleep(delayMs)
        await Promise.all([burrow.freeze(), taking])
        burrow = shared.hold((await taking).burrow!)
        expect(await print(burrow, 'n += 1; print(n)')).toBe(String(round + 1))
      }
    })

    test('freeze and thaw send no signals, also not to parents of stopped children', async () => {
      const burrow = await shared.create()
      expect((await burrow.guest.runs.run({ code: WATCH_SIGNALS })).error?.traceback).toBeUndefined()
      for (let round = 0; round < 5; round++) {
        await burrow.freeze()
        await burrow.thaw()
      }
      expect(await print(burrow, 'print(noticed())')).toBe('[] [] []')
      // A signal would be noticed: one is sent and seen.
      await burrow.guest.runs.run({
        code: 'child.send_signal(signal.SIGSTOP); time.sleep(0.3); child.send_signal(signal.SIGCONT); time.sleep(0.3)',
      })
      expect(await print(burrow, 'print(noticed())')).toBe(
        "['SIGCHLD', 'SIGCHLD'] ['SIGCONT'] ['CLD_CONTINUED']",
      )
    })

    test('a snapshot sends no signals to the processes that continue', async () => {
      const burrow = await shared.create()
      expect((await burrow.guest.runs.run({ code: WATCH_SIGNALS })).error?.traceback).toBeUndefined()
      const { burrow: next } = await shared.engine.snapshot(burrow, { leave: 'frozen' })
      await shared.hold(next!).thaw()
      expect(await print(next!, 'print(noticed())')).toBe('[] [] []')
    })

    test('a snapshot can leave the sandbox frozen', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'x = 7' })
      const { burrow: next } = await shared.engine.snapshot(burrow, { leave: 'frozen' })
      const frozen = shared.hold(next!)
      const before = await frozen.usage()
      await sleep(300)
      expect((await frozen.usage()).cpuMs - before.cpuMs).toBeLessThan(5)
      await frozen.thaw()
      expect(await print(frozen, 'print(x)')).toBe('7')
    })

    test('a second snapshot at the same time is refused, and the first succeeds', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'x = 7' })
      const first = shared.engine.snapshot(burrow, { leave: 'gone' })
      await expect(shared.engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({
        code: 'conflict',
      })
      const woken = shared.hold(
        await shared.engine.restore((await first).snapshot.id, { sandboxId: burrow.sandboxId }),
      )
      expect(await print(woken, 'print(x)')).toBe('7')
    })

    test('destroy waits for a snapshot in progress, which succeeds', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'x = 7' })
      const taking = shared.engine.snapshot(burrow, { leave: 'gone' })
      await burrow.destroy()
      const { snapshot } = await taking
      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
      expect(await print(woken, 'print(x)')).toBe('7')
    })

    test.each<[string, () => Promise<unknown>, string]>([
      [
        'restore of an unknown snapshot',
        () => shared.engine.restore(newSnapshotId(), { sandboxId: newSandboxId() }),
        'not_found',
      ],
      ['delete of an unknown snapshot', () => shared.engine.deleteSnapshot(newSnapshotId()), 'not_found'],
      [
        'restore of a path',
        () => shared.engine.restore('../x' as never, { sandboxId: newSandboxId() }),
        'invalid_argument',
      ],
      [
        'a fork without children',
        () => shared.engine.fork(shared.burrow, { sandboxIds: [] }),
        'invalid_argument',
      ],
    ])('%s is refused and changes nothing', async (_what, call, code) => {
      const before = await factory.traces()
      await expect(call()).rejects.toMatchObject({ code })
      expect(await factory.traces()).toEqual(before)
      expect(await print(shared.burrow, 'print("here")')).toBe('here')
    })

    test('a snapshot of another sandbox is refused before anything starts', async () => {
      const burrow = await shared.create()
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      const before = await factory.traces()
      const restoreOf = (of: SandboxId) =>
        shared.engine.restore(snapshot.id, { sandboxId: newSandboxId(), of })
      await expect(restoreOf(newSandboxId())).rejects.toMatchObject({ code: 'snapshot_unusable' })
      expect(await factory.traces()).toEqual(before)
      shared.hold(await restoreOf(burrow.sandboxId))
    })

    test('deleting a snapshot does not affect others that share its memory', async () => {
      const burrow = await shared.create()
      await burrow.guest.runs.run({ code: 'data = b"x" * (32 << 20); n = 1' })
      const first = await shared.engine.snapshot(burrow, { leave: 'running' })
      await first.burrow!.guest.runs.run({ code: 'n = 2' })
      const second = await shared.engine.snapshot(first.burrow!, { leave: 'gone' })
      await shared.engine.deleteSnapshot(first.snapshot.id)
      await expect(shared.engine.getSnapshot(first.snapshot.id)).rejects.toMatchObject({ code: 'not_found' })
      expect((await shared.engine.listSnapshots()).map(({ id }) => id)).not.toContain(first.snapshot.id)
      const woken = shared.hold(
        await shared.engine.restore(second.snapshot.id, { sandboxId: burrow.sandboxId }),
      )
      expect(await print(woken, 'print(n, data == b"x" * (32 << 20))')).toBe('2 True')
    })
  })
}
