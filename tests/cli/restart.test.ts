import { expect, test } from 'vitest'
import { useCommandLine } from './command-line.ts'

const cli = useCommandLine()

test('run shows all output once when the server is killed and restarted during the run', async () => {
  await cli.json(['create', 'box'])
  const code = 'import time\nfor i in range(30):\n    print(i, flush=True)\n    time.sleep(0.2)\n'
  const running = cli.run(['run', 'box', code])
  const printed = async () => {
    const { items } = await cli.server.ok('/v1/sandboxes/box/runs')
    if (items.length === 0) return ''
    const { body } = await cli.server.fetch(`/v1/sandboxes/box/runs/${items[0].runId}/events?follow=false`)
    return new Response(body).text()
  }
  await expect.poll(printed, { timeout: 30_000 }).toContain('"3\\n"')
  await cli.server.kill()
  await cli.server.begin()
  const { status, stdout } = await running
  expect(stdout).toBe(Array.from({ length: 30 }, (_, i) => `${i}\n`).join(''))
  expect(status).toBe(0)
})

test('sh --attach returns to the same shell after a restart of the server', async () => {
  await cli.json(['create', 'box', '--get-or-create'])
  const terminal = cli.terminal(['sh', 'box'])
  terminal.type('x=kept; echo re""ady\r')
  await terminal.shows(/ready\r\n/)
  await cli.server.kill()
  await cli.server.begin()
  terminal.type('echo was-$x\r')
  await terminal.shows(/was-kept\r\n/)
  terminal.type('exit 4\r')
  expect(await terminal.status()).toBe(4)
})
