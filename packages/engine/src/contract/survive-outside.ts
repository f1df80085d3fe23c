import { expect } from 'vitest'
import type { Guest } from '../guest.ts'
import { collect, eventually, runPython, textOf } from './collect.ts'
import { startRun } from './start-run.ts'
import type { Survivor } from './survive-item.ts'

/**
 * Items that a caller starts and uses through the engine. Pids are the same in every copy, so one variable holds them.
 */
export function outsideThatSurvives(): Survivor[] {
  return [interactiveShell(), webServer(), processWithStdin(), longComputation()]
}

function interactiveShell(): Survivor {
  let processId = ''
  const shows = (guest: Guest, text: string) =>
    eventually(`${text} on the terminal`, async () =>
      textOf(await collect(guest.processes.events(processId, { follow: false })), 'stdout').includes(text),
    )
  const type = (guest: Guest, text: string) => guest.processes.writeStdin(processId, text, { close: false })
  let turn = 0
  return {
    title: 'an interactive shell on a terminal, with its variables, jobs and size',
    async setUp(guest) {
      const pty = { cols: 91, rows: 33 }
      processId = await guest.processes.start({ args: ['bash', '--norc'], env: { PS1: 'prompt> ' }, pty })
      await shows(guest, 'prompt> ')
      await type(guest, 'kept=va""lue; cd /usr; sleep 1000 &\r')
      await type(guest, 'echo rea""dy\r')
      await shows(guest, 'ready')
    },
    async check(guest) {
      const mark = `turn-${++turn}`
      const show = `echo ${mark}: $kept $PWD $(stty size) $(jobs | wc -l)-job`
      // The foreground program itself reports that it has begun, so the interrupt does not reach only the shell.
      await type(guest, `${show}; sh -c 'echo be""gun-${mark}; exec sleep 1000'\r`)
      await shows(guest, `${mark}: value /usr 33 91 1-job\r\n`)
      await shows(guest, `begun-${mark}\r\n`)
      await type(guest, '\x03')
      await type(guest, `echo after-${mark}-$((1 + 1))\r`)
      await shows(guest, `after-${mark}-2`)
      expect((await guest.processes.list()).find((one) => one.processId === processId)).toMatchObject({
        state: 'running',
        pty: true,
      })
    },
  }
}

function webServer(): Survivor {
  let processId = ''
  const get =
    'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:8123/page", timeout=20).read())'
  return {
    title: 'a running python -m http.server',
    async setUp(guest) {
      await guest.files.write('/root/site/page', 'content', { parents: true })
      const args = ['python3', '-m', 'http.server', '8123', '--directory', '/root/site']
      processId = await guest.processes.start({ args })
      await eventually('the server', async () => (await guest.runs.run({ code: get })).exitCode === 0)
    },
    async check(guest) {
      expect(await runPython(guest, get)).toBe("b'content'\n")
      expect((await guest.processes.list()).find((one) => one.processId === processId)).toMatchObject({
        state: 'running',
      })
    },
  }
}

function processWithStdin(): Survivor {
  let processId = ''
  const output = async (guest: Guest) =>
    textOf(await collect(guest.processes.events(processId, { follow: false })), 'stdout')
  return {
    title: 'a process with its stdin open and its journal of output',
    async setUp(guest) {
      processId = await guest.processes.start({ args: ['cat'], stdin: true })
      await guest.processes.writeStdin(processId, 'before\n', { close: false })
      await eventually('the output', async () => (await output(guest)) === 'before\n')
    },
    async check(guest) {
      const before = await output(guest)
      expect(before).toMatch(/^before\n(after\n)*$/)
      await guest.processes.writeStdin(processId, 'after\n', { close: false })
      await eventually('the output', async () => (await output(guest)) === `${before}after\n`)
    },
  }
}

function longComputation(): Survivor {
  let runId = ''
  return {
    title: 'a run in the middle of a computation, with all of its events',
    async setUp(guest) {
      await guest.contexts.create({ context: 'busy' })
      const code =
        'import time\nfor i in range(10_000):\n  print(i, flush=True)\n  for _ in range(5): sum(range(10_000)); time.sleep(0.02)'
      runId = await startRun(guest, { code, context: 'busy' })
    },
    async check(guest) {
      const before = await collect(guest.runs.events(runId, { follow: false }))
      const more = await eventually('more output', async () => {
        const now = await collect(guest.runs.events(runId, { follow: false }))
        return now.length > before.length + 2 && now
      })
      expect(more.map(({ seq }) => seq)).toEqual(more.map((_event, index) => index))
      const lines = textOf(more, 'stdout').trim().split('\n')
      expect(lines).toEqual(lines.map((_line, index) => String(index)))
      // The run continues: the next group of tests copies this burrow again.
      expect(more.filter(({ type }) => type === 'exit')).toEqual([])
    },
  }
}
