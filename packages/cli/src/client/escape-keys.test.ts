import { expect, test } from 'vitest'
import { EscapeKeys } from './escape-keys.ts'

function typed(...pieces: string[]): { sent: string; detach: boolean } {
  const keys = new EscapeKeys()
  let sent = ''
  for (const piece of pieces) {
    const { send, detach } = keys.feed(Buffer.from(piece))
    sent += Buffer.from(send).toString()
    if (detach) return { sent, detach }
  }
  return { sent, detach: false }
}

test.each([
  [['~.'], '', true],
  [['ls\r~.rest'], 'ls\r', true],
  [['\r', '~', '.'], '\r', true],
  [['a~.'], 'a~.', false],
  [['\r~~.'], '\r~.', false],
  [['\r~x.'], '\r~x.', false],
  [['\r~\r~.'], '\r~\r', true],
  [['größe\r~'], 'größe\r', false],
])('%j sends %j, detaches: %s', (pieces, sent, detach) => {
  expect(typed(...pieces)).toEqual({ sent, detach })
})
