import { expect, test } from 'vitest'
import { type Terminal, useCommandLine } from './command-line.ts'

const cli = useCommandLine()

async function shell(name: string): Promise<Terminal> {
  await cli.json(['create', name, '--get-or-create'])
  const terminal = cli.terminal(['sh', name])
  terminal.type(`PS1='prompt'"> "\r`)
  await terminal.shows(/prompt> $/)
  return terminal
}

test('sh opens a shell in a terminal of the same size, follows resizes, and exits with its status', async () => {
  const terminal = await shell('shell')
  terminal.type('stty size; echo $TERM\r')
  await terminal.shows(/24 80\r\nxterm-256color\r\n/)
  terminal.resize(50, 132)
  // The new size may arrive after this input.
  terminal.type('until [ "$(stty size)" = "50 132" ]; do sleep 0.05; done; echo res""ized\r')
  await terminal.shows(/resized\r\n/)
  expect(await terminal.modes()).toEqual({ echo: false, canonical: false })
  terminal.type('exit 7\r')
  expect(await terminal.status()).toBe(7)
})

test('sh in a terminal without a size uses 24 by 80 inside', async () => {
  await cli.json(['create', 'shell', '--get-or-create'])
  const terminal = cli.terminal(['sh', 'shell', '--', 'stty', 'size'], { TEST_TERMINAL_SIZE: '0 0' })
  await terminal.shows(/24 80\r\n/)
  expect(await terminal.status()).toBe(0)
})

test('sh passes Ctrl-C to the program inside, and continues', async () => {
  const terminal = await shell('shell')
  terminal.type(`sh -c 'echo be""gun; exec sleep 1000'\r`)
  await terminal.shows(/begun/)
  terminal.type('\x03')
  await terminal.shows(/prompt> $/)
  terminal.type('echo st""ill; exit\r')
  await terminal.shows(/still/)
  expect(await terminal.status()).toBe(0)
})

test('sh detaches with ~. and returns to the same shell with --attach; it leaves the alternate screen', async () => {
  const terminal = await shell('shell')
  terminal.type("x=kept; printf '\\033[?1049h'; echo re''ady\r")
  await terminal.shows(/\[\?1049hready/)
  terminal.type('\r~.')
  await terminal.shows(/\[\?1049l/)
  await terminal.shows(/Detached; the shell keeps running\. Return with `dormouse sh shell --attach pr-\w+`/)
  expect(await terminal.status()).toBe(0)
  const { items } = await cli.server.ok('/v1/sandboxes/shell/processes')
  const { processId } = items.find(
    (process: { pty: boolean; state: string }) => process.pty && process.state === 'running',
  )
  const again = cli.terminal(['sh', 'shell', '--attach', processId])
  again.type('echo was-$x ~""~; exit\r')
  await again.shows(/was-kept ~~\r\n/)
  expect(await again.status()).toBe(0)
})

test('sh runs a command instead of a shell, as a user, in a directory', async () => {
  await cli.json(['create', 'shell', '--get-or-create'])
  const terminal = cli.terminal([
    'sh',
    'shell',
    '-u',
    'user',
    '-w',
    '/tmp',
    '--',
    'sh',
    '-c',
    'tty; whoami; pwd; exit 3',
  ])
  await terminal.shows(/\/dev\/pts\/\d+\r\nuser\r\n\/tmp\r\n/)
  expect(await terminal.status()).toBe(3)
})

test('sh that is ended by a signal restores the terminal and says how to return', async () => {
  const terminal = await shell('shell')
  terminal.signal('SIGTERM')
  await terminal.shows(/Detached; the shell keeps running/)
  expect(await terminal.status()).toBe(143)
})

test('sh without a terminal says what to use instead, with status 2', async () => {
  const { status, stderr } = await cli.run(['sh', 'shell'])
  expect(status).toBe(2)
  expect(stderr).toContain('dormouse exec shell -- bash')
})
