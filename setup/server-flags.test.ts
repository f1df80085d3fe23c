import { resolve } from 'node:path'
import { expect, it } from 'vitest'
import { serverFlags } from '../packages/server/src/config/describe-settings.ts'
import { parseServerFlags, readServerFlags } from './server-flags.mjs'

it('server-flags.json is what docs/make-configuration.mjs writes', () => {
  expect(readServerFlags()).toEqual(serverFlags())
})

it('parseServerFlags takes values after a space or an equals sign, and resolves relative file names', () => {
  expect(
    parseServerFlags([
      ...['--port', '80', '--host=::1', '--insecure-bind'],
      ...['--tls-cert', 'a.pem', '--tls-key=/k.pem'],
    ]),
  ).toEqual({
    '--port': '80',
    '--host': '::1',
    '--insecure-bind': 'true',
    '--tls-cert': resolve('a.pem'),
    '--tls-key': '/k.pem',
  })
})

it.each([
  [['extra'], '"extra"'],
  [['--prot', '80'], '"--prot"'],
  [['--constructor', '80'], '"--constructor"'],
  [['-p', '80'], '"-p"'],
  [['--port'], '--port needs a value'],
  [['--port='], '--port needs a value'],
  [['--host', '--port', '80'], '--host needs a value'],
  [['--insecure-bind=maybe'], '"--insecure-bind=maybe"'],
])('parseServerFlags refuses %j', (args, message) => {
  expect(() => parseServerFlags(args)).toThrow(message)
})
