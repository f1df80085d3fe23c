import type { ProcessEvent } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import type { Guest, StartProcess } from '../guest.ts'
import { collect, collectText, eventually, expectWholeJournal, textOf } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

/** Within so many starts a pid comes again where pids start again. */
const PIDS_AFTER_SLEEP = 30

export function describeProcesses(factory: EngineFactory): void {
  describe('processes', () => {
    const shared = useSharedBurrow(factory)
    const run = async (request: StartProcess) => {
      const events = await collect(shared.guest.processes.stream(request))
      expectWholeJournal(events)
      const exit = events.at(-1) as ProcessEvent & { type: 'exit' }
      return { events, exit, stdout: textOf(events, 'stdout'), stderr: textOf(events, 'stderr') }
    }
    const noneLeft = (command: string) =>
      eventually(`the end of ${command}`, async () => {
        const { stdout } = await run({ args: ['pgrep', '-cf', command] })
        return stdout === '0\n'
      })
    const find = async (processId: string) =>
      (await shared.guest.processes.list()).find((one) => one.processId === processId)

    test('args are passed unchanged, without a shell', async () => {
      const done = await run({ args: ['printf', '%s|', 'a b', '$HOME', '*', '', 'ü', '"'] })
      expect(done.stdout).toBe('a b|$HOME|*||ü|"|')
      expect(done.events[0]).toMatchObject({
        type: 'start',
        processId: expect.stringMatching(/^pr-[2-9a-z]{16}$/),
        pid: expect.any(Number),
      })
      expect(done.exit).toMatchObject({ exitCode: 0, durationMs: expect.any(Number) })
    })

    test('bash executes a shell line; stdout and stderr are separate', async () => {
      const done = await run({ shell: 'a=(1 2); echo $((a[1] * 3)) | cat; echo err >&2; exit 3' })
      expect(done).toMatchObject({ stdout: '6\n', stderr: 'err\n', exit: { exitCode: 3 } })
    })

    test('cwd, env and user apply; the default is root in its home', async () => {
      const shell = 'echo $(whoami) $PWD $HOME $COLOUR'
      expect((await run({ shell })).stdout).toBe('root /root /root\n')
      const own = await run({ shell, user: 'user', cwd: '/tmp', env: { COLOUR: 'red' } })
      expect(own.stdout).toBe('user /tmp /home/user red\n')
      expect((await run({ shell, user: 'user' })).stdout).toBe('user /home/user /home/user\n')
      expect((await run({ shell: 'id -G', user: 'user' })).stdout).not.toMatch(/\b0\b/)
    })

    test.each<[string, StartProcess, number, string | undefined]>([
      ['an exit code', { shell: 'exit 42' }, 42, undefined],
      ['a signal', { shell: 'kill -TERM $$' }, 143, 'SIGTERM'],
      ['a kill', { shell: 'kill -KILL $$' }, 137, 'SIGKILL'],
    ])('exit reports %s', async (_what, request, exitCode, signal) => {
      const { exit } = await run(request)
      expect(exit.exitCode).toBe(exitCode)
      expect(exit.signal).toBe(signal)
    })

    test.each<[string, StartProcess, string]>([
      ['a program that does not exist', { args: ['/no/such/program'] }, 'not_found'],
      ['a program that is not executable', { args: ['/etc/passwd'] }, 'permission_denied'],
      ['a directory that does not exist', { args: ['true'], cwd: '/no/such/place' }, 'not_found'],
      [
        'a directory the user may not enter',
        { args: ['true'], cwd: '/root', user: 'user' },
        'permission_denied',
      ],
      ['a user that does not exist', { args: ['true'], user: 'nosuchuser' }, 'invalid_argument'],
    ])('start refuses %s', async (_what, request, code) => {
      const before = await shared.guest.processes.list()
      await expect(shared.guest.processes.start(request)).rejects.toMatchObject({ code })
      expect(await shared.guest.processes.list()).toEqual(before)
    })

    test('stdin is empty by default', async () => {
      expect((await run({ shell: 'cat; echo end' })).stdout).toBe('end\n')
    })

    test('stdin can be written in pieces and closed', async () => {
      const processId = await shared.guest.processes.start({ shell: 'cat; echo closed', stdin: true })
      expect(await shared.guest.processes.writeStdin(processId, 'first ', { close: false })).toBe(6)
      expect(await shared.guest.processes.writeStdin(processId, Buffer.from('sécond\n'))).toBe(8)
      const events = await collect(shared.guest.processes.events(processId))
      expect(textOf(events, 'stdout')).toBe('first sécond\nclosed\n')
    })

    test('20 MB of stdin reach a process that reads slowly at first', async () => {
      const processId = await shared.guest.processes.start({ shell: 'sleep 0.3; wc -c', stdin: true })
      async function* pieces() {
        for (let n = 0; n < 20; n += 1) yield Buffer.alloc(1_000_000, 'z')
      }
      expect(await shared.guest.processes.writeStdin(processId, pieces())).toBe(20_000_000)
      expect(textOf(await collect(shared.guest.processes.events(processId)), 'stdout').trim()).toBe(
        '20000000',
      )
    })

    test('concurrent writes to stdin keep each piece in one piece', async () => {
      const { processes } = shared.guest
      const processId = await processes.start({ shell: 'read -r go; sort | uniq -c', stdin: true })
      async function* lines(letter: string) {
        for (let n = 0; n < 50; n += 1) yield Buffer.from(`${letter.repeat(5000)}\n`)
      }
      // More than the pipe holds: both requests are active before the process reads.
      const writers = ['a', 'b'].map((letter) =>
        processes.writeStdin(processId, lines(letter), { close: false }),
      )
      await processes.writeStdin(processId, '\ngo\n', { close: false })
      expect(await Promise.all(writers)).toEqual([250_050, 250_050])
      await processes.writeStdin(processId, '')
      const counted = textOf(await collect(processes.events(processId)), 'stdout')
      expect(counted.match(/ \d+ (a{5000}|b{5000})$/gm)?.map((line) => line.trim().slice(0, 4))).toEqual([
        expect.stringMatching(/^(49|50) a$/),
        expect.stringMatching(/^(49|50) b$/),
      ])
    })

    test('writing to stdin is refused if the process has none, or has ended', async () => {
      const { processes } = shared.guest
      const deaf = await processes.start({ args: ['sleep', '1000'] })
      await expect(processes.writeStdin(deaf, 'x')).rejects.toMatchObject({ code: 'conflict' })
      const reader = await processes.start({ args: ['sleep', '1000'], stdin: true })
      // More than the pipe holds: the request is still active when the process ends.
      const first = processes.writeStdin(reader, Buffer.alloc(1_000_000, 'a'))
      await processes.signal(reader, 'SIGKILL')
      await expect(first).rejects.toMatchObject({ code: 'conflict' })
      const ended = await processes.start({ args: ['true'], stdin: true })
      await collect(processes.events(ended))
      await expect(processes.writeStdin(ended, 'x')).rejects.toMatchObject({ code: 'conflict' })
      await processes.signal(deaf, 'SIGKILL')
    })

    test('a time-out ends the process and its children', async () => {
      const done = await run({ shell: 'echo begun; sleep 543 & wait', timeoutMs: 300 })
      expect(done).toMatchObject({ stdout: 'begun\n', exit: { exitCode: 124, timedOut: true } })
      await noneLeft('^sleep 543')
    })

    test('a process that ignores SIGTERM at its time-out is killed after the grace period', async () => {
      const done = await run({ shell: 'trap "" TERM; while :; do sleep 0.1; done', timeoutMs: 200 })
      expect(done.exit).toMatchObject({ exitCode: 124, timedOut: true, signal: 'SIGKILL' })
    })

    test('a user created inside can be used at once', async () => {
      expect((await run({ shell: 'useradd --create-home ann' })).exit.exitCode).toBe(0)
      expect((await run({ shell: 'whoami; pwd', user: 'ann' })).stdout).toBe('ann\n/home/ann\n')
    })

    test('a signal, given by name, reaches the whole process group', async () => {
      const processId = await shared.guest.processes.start({
        shell:
          'trap "echo caught; exit 9" USR1; sleep 432 & until grep -q ^sleep /proc/$!/comm; do :; done; echo ready; wait',
      })
      for await (const event of shared.guest.processes.events(processId)) {
        if (event.type === 'stdout' && event.data.includes('ready'))
          await shared.guest.processes.signal(processId, 'SIGUSR1')
        if (event.type === 'exit') expect(event.exitCode).toBe(9)
      }
      await noneLeft('^sleep 432')
      await expect(shared.guest.processes.signal(processId, 'SIGUSR1')).rejects.toMatchObject({
        code: 'conflict',
      })
    })

    test('a background process outlives its reader, and can be followed again after any seq', async () => {
      const shell = 'for i in 1 2 3 4 5 6; do echo $i; sleep 0.05; done; exit 5'
      const seen: ProcessEvent[] = []
      for await (const event of shared.guest.processes.stream({ shell })) {
        seen.push(event)
        if (seen.length === 3) break
      }
      const [start] = seen as [ProcessEvent & { type: 'start' }]
      const rest = await collect(shared.guest.processes.events(start.processId, { after: seen.at(-1)!.seq }))
      expectWholeJournal([...seen, ...rest])
      expect(textOf([...seen, ...rest], 'stdout')).toBe('1\n2\n3\n4\n5\n6\n')
      const all = await collect(shared.guest.processes.events(start.processId))
      expect(all).toEqual([...seen, ...rest])
      expect(await collect(shared.guest.processes.events(start.processId, { after: 4 }))).toEqual(
        all.slice(5),
      )
    })

    test('the list shows started processes and how they ended', async () => {
      const processId = await shared.guest.processes.start({ args: ['sleep', '1000'], user: 'user' })
      expect(await find(processId)).toMatchObject({
        command: 'sleep 1000',
        user: 'user',
        state: 'running',
        pty: false,
      })
      await shared.guest.processes.signal(processId, 'SIGKILL')
      await collect(shared.guest.processes.events(processId))
      expect(await find(processId)).toMatchObject({ state: 'exited', exitCode: 137 })
    })

    test('a process that was not started through the guest is not found', async () => {
      const { processes } = shared.guest
      await expect(processes.signal('1', 'SIGKILL')).rejects.toMatchObject({ code: 'not_found' })
      await expect(processes.writeStdin('2', 'x')).rejects.toMatchObject({ code: 'not_found' })
      await expect(collect(processes.events('99999'))).rejects.toMatchObject({ code: 'not_found' })
    })

    test('100 MB of output take bounded memory and are marked as truncated', async () => {
      const before = await shared.guest.info()
      const events = await collect(
        shared.guest.processes.stream({ shell: 'head -c 100000000 /dev/zero | tr "\\0" x' }),
      )
      expectWholeJournal(events)
      const lost = events.reduce((sum, event) => sum + (event.type === 'truncated' ? event.bytes : 0), 0)
      expect(textOf(events, 'stdout').length + lost).toBeGreaterThanOrEqual(100_000_000)
      expect((await shared.guest.info()).rssBytes).toBeLessThan(before.rssBytes + 96 * 1024 ** 2)
    })

    test('an ended process is not mistaken for a later one with its pid, across a sleep', async () => {
      const burrow = await shared.create()
      const { processes } = burrow.guest
      // Pids may start again after a sleep, near the highest one in use; the restore itself may use a few of them.
      let ended = ''
      for (let count = 0; count < 12; count += 1) {
        ended = await processes.start({ args: ['true'] })
        await collect(processes.events(ended))
      }
      const pid = (await processes.list()).find(({ processId }) => processId === ended)?.pid
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
      const after = woken.guest.processes
      let attempts = 0
      const later = await eventually('a process with the same pid', async () => {
        attempts += 1
        if (attempts > PIDS_AFTER_SLEEP) await chooseNextPid(woken.guest, pid! - (attempts % 4))
        const started = await after.start({ args: ['sleep', '1000'] })
        const found = (await after.list()).find(({ processId }) => processId === started)
        if (found?.pid === pid) return started
        await after.signal(started, 'SIGKILL')
        return undefined
      })
      expect(later).not.toBe(ended)
      await expect(after.signal(ended, 'SIGKILL')).rejects.toMatchObject({ code: 'conflict' })
      const state = async (id: string) =>
        (await after.list()).find(({ processId }) => processId === id)?.state
      expect([await state(ended), await state(later)]).toEqual(['exited', 'running'])
      // By its pid, only the one that runs.
      await after.signal(String(pid), 'SIGKILL')
      await collect(after.events(later))
      await expect(after.signal(String(pid), 'SIGKILL')).rejects.toMatchObject({ code: 'not_found' })
    })

    test('the agent reaps orphans', async () => {
      await run({
        shell: 'for i in $(seq 50); do (sleep 0.1 & ) ; done; (setsid sh -c "sleep 0.1; exit 3" &)',
      })
      const states = () => run({ shell: 'cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") Z "' })
      await eventually('all zombies gone', async () => (await states()).stdout === '0\n')
    })

    test('a process above the limit is refused', async () => {
      const { guest } = await shared.create({ limits: { pids: 512 } })
      const started: string[] = []
      const fill = async () => {
        for (let n = 0; n < 300; n += 1)
          started.push(await guest.processes.start({ args: ['sleep', '1000'] }))
      }
      await expect(fill()).rejects.toMatchObject({ code: 'limit_reached' })
      expect(started.length).toBeGreaterThanOrEqual(200)
      expect(await collectText(guest.files.read('/etc/hostname'))).toMatch(/\w/)
    })
  })
}

/** Where pids continue after a sleep, root chooses the next one. Elsewhere it may not, and nothing happens. */
async function chooseNextPid({ processes }: Guest, pid: number): Promise<void> {
  await collect(processes.stream({ shell: `echo ${pid - 1} > /proc/sys/kernel/ns_last_pid`, user: 'root' }))
}
