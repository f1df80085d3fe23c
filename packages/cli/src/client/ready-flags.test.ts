import { expect, it } from 'vitest'
import { readyOf } from './ready-flags.ts'

it.each([
  [{}, undefined],
  [{ ready: '8000' }, { port: 8000 }],
  [{ ready: 'listening on 8000' }, { log: 'listening on 8000' }],
  [{ readyCommand: 'test -e /ready' }, { command: 'test -e /ready' }],
])('readyOf turns %j into %j', (flags, ready) => {
  expect(readyOf(flags)).toEqual(ready)
})
