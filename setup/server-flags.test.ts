import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import { SETTINGS } from '../packages/server/src/config/settings.ts'
import { SERVER_FLAGS, serverFlags } from './server-flags.mjs'

it('serverFlags knows exactly the flags that the server knows', () => {
  const known = SETTINGS.filter(({ flag }) => flag !== undefined)
  expect(Object.keys(SERVER_FLAGS).sort()).toEqual(known.map(({ flag }) => flag).sort())
  for (const { flag, kind } of known) {
    expect(SERVER_FLAGS[flag!] === 'switch').toBe(kind === 'boolean')
  }
})

it('serverFlags takes values after a space or an equals sign, and names files from here', () => {
  expect(
    serverFlags(['--port', '80', '--host=::1', '--insecure-bind', '--tls-cert', 'a.pem', '--tls-key=/k.pem']),
  ).toEqual([
    '--port=80',
    '--host=::1',
    '--insecure-bind',
    `--tls-cert=${resolve('a.pem')}`,
    '--tls-key=/k.pem',
  ])
})

it.each([
  [['extra'], '"extra"'],
  [['--prot', '80'], '"--prot"'],
  [['--port'], '--port needs a value'],
  [['--port='], '--port needs a value'],
  [['--host', '--port', '80'], '--host needs a value'],
  [['--insecure-bind=maybe'], '"--insecure-bind=maybe"'],
])('serverFlags refuses %j', (args, message) => {
  expect(() => serverFlags(args)).toThrow(message)
})
