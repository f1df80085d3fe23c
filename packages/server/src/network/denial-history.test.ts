import { newSandboxId } from '@dormouse/contracts'
import type { DeniedAnswer } from '@dormouse/contracts/http'
import { afterEach, expect, test } from 'vitest'
import { DenialHistory } from './denial-history.ts'

let now = 1_000_000
const id = newSandboxId()
const open: DenialHistory[] = []
afterEach(() => {
  for (const denials of open.splice(0)) denials[Symbol.dispose]()
})

function collect() {
  const written: DeniedAnswer[] = []
  const denials = new DenialHistory({
    clock: { wallMs: () => now, monotonicMs: () => now },
    record: (entries) => written.push(...entries.flatMap(({ entry }) => entry.denied ?? [])),
  })
  open.push(denials)
  return { denials, written }
}

const asked = (name: string, count = 1): DeniedAnswer => ({
  protocol: 'dns',
  name,
  reason: 'not allowed',
  count,
})

test('the same thing again and again is one entry with its count', () => {
  const { denials, written } = collect()
  for (let at = 0; at < 500; at += 1) denials.add(id, asked('example.com'))
  denials.flush()
  expect(written).toEqual([asked('example.com', 500)])
  expect(denials.recent(id)).toMatchObject([{ name: 'example.com', count: 500 }])
})

test('a sandbox that asks for ever new names gets a bounded number of entries, and every attempt is in a count', () => {
  const { denials, written } = collect()
  for (let round = 0; round < 100; round += 1) {
    for (let at = 0; at < 100; at += 1) denials.add(id, asked(`n${round}-${at}.example.com`))
    denials.flush()
  }
  expect(written.length).toBe(40)
  now += 24 * 3600 * 1000
  denials.flush()
  expect(written.length).toBeLessThanOrEqual(80)
  expect(written.reduce((sum, { count }) => sum + count, 0)).toBe(10_000)
  expect(denials.recent(id)).toHaveLength(50)
})

test('what is forgotten is written no more, and an id that is none is ignored', () => {
  const { denials, written } = collect()
  denials.add(id, asked('example.com'))
  denials.add('sb-none', asked('example.com'))
  denials.forget(id)
  denials.flush()
  expect(written).toEqual([])
  expect(denials.recent(id)).toEqual([])
})
