import type { ProcessEvent } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import { collect, eventually, expectWholeJournal, textOf } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

export function describeTerminals(factory: EngineFactory): void {
  describe('processes with a terminal', () => {
    const shared = useSharedBurrow(factory)
    const pty = { cols: 80, rows: 24 }
    const held = (processId: string) => collect(shared.guest.processes.events(processId, { follow: false }))
    const shows = (processId: string, text: RegExp) =>
      eventually(`${text} on the terminal`, async () => text.test(textOf(await held(processId), 'stdout')))

    test('a shell gets a terminal of the requested size, and job control', async () => {
      const shell = 'tty; stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; set -m && echo jobs'
      const events: ProcessEvent[] = await collect(shared.guest.processes.stream({ shell, pty }))
      expectWholeJournal(events)
      expect(textOf(events, 'stdout')).toMatch(/^\/dev\/pts\/\d+\r\n24 80\r\nall\r\njobs\r\n$/)
      expect(textOf(events, 'stderr')).toBe('')
    })

    test('an interactive shell accepts input, sees a new size, and ends with Ctrl-D', async () => {
      const { processes } = shared.guest
      const processId = await processes.start({ args: ['bash', '--norc'], env: { PS1: 'prompt> ' }, pty })
      await shows(processId, /prompt> $/)
      await processes.writeStdin(processId, 'echo $((6 * 7))\r', { close: false })
      await shows(processId, /42\r\n/)
      await processes.resize(processId, { cols: 132, rows: 50 })
      await processes.writeStdin(processId, 'stty size\r', { close: false })
      // A Ctrl-D before the prompt is lost when the shell switches the terminal to raw mode.
      await shows(processId, /50 132\r\n[\s\S]*prompt> $/)
      expect((await processes.list()).find((one) => one.processId === processId)).toMatchObject({ pty: true })
      await processes.writeStdin(processId, '')
      const events = await collect(processes.events(processId))
      expectWholeJournal(events)
      expect(events.at(-1)).toMatchObject({ exitCode: 0 })
    })

    test('Ctrl-C interrupts the foreground program, and the shell continues', async () => {
      const { processes } = shared.guest
      const processId = await processes.start({ args: ['bash', '--norc'], env: { PS1: 'prompt> ' }, pty })
      await shows(processId, /prompt> $/)
      // The foreground program itself prints this: an earlier Ctrl-C would reach only the shell.
      await processes.writeStdin(processId, `sh -c 'echo be""gun; exec sleep 1000'\r`, { close: false })
      await shows(processId, /begun/)
      await processes.writeStdin(processId, '\x03', { close: false })
      await shows(processId, /\^C[\s\S]*prompt> $/)
      await processes.writeStdin(processId, 'echo still $((1 + 1)); exit 7\r', { close: false })
      const events = await collect(processes.events(processId))
      expect(textOf(events, 'stdout')).toMatch(/still 2\r\n/)
      expect(events.at(-1)).toMatchObject({ exitCode: 7 })
    })

    test('a program gets SIGWINCH when the size changes', async () => {
      const { processes } = shared.guest
      const shell = 'trap "echo changed; stty size; exit" WINCH; echo ready; while :; do sleep 0.02; done'
      const processId = await processes.start({ shell, pty })
      await shows(processId, /ready/)
      await processes.resize(processId, { cols: 100, rows: 30 })
      expect(textOf(await collect(processes.events(processId)), 'stdout')).toMatch(/changed\r\n30 100\r\n/)
    })

    test('a terminal of user belongs to user', async () => {
      const events = await collect(
        shared.guest.processes.stream({
          shell: 'whoami; stat -c %U $(tty); echo ok > $(tty)',
          user: 'user',
          pty,
        }),
      )
      expect(textOf(events, 'stdout')).toBe('user\r\nuser\r\nok\r\n')
    })

    test('a process without a terminal cannot be resized', async () => {
      const processId = await shared.guest.processes.start({ args: ['sleep', '1000'] })
      const resized = shared.guest.processes.resize(processId, pty)
      await expect(resized).rejects.toMatchObject({ code: 'conflict' })
      await shared.guest.processes.signal(processId, 'SIGKILL')
    })
  })
}
