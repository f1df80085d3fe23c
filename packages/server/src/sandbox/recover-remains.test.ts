import type { SandboxId } from '@dormouse/contracts'
import type { Burrow, Snapshot } from '@dormouse/engine'
import { expect, test } from 'vitest'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { type Found, isAtRest } from './recover-remains.ts'

const ID = 'sb-aaaaaaaaaaaaaaaa' as SandboxId
const STORED = { id: ID, state: 'standby', tier: 'stored', burrow: undefined } as SandboxRow
const NOTHING: Found = {
  ...{ burrows: [], burrowsOf: new Map(), unrecorded: [], unrecordedOf: new Map() },
  ...{ ofDeadBurrows: new Set(), undone: new Set() },
}

test('a stored sandbox of which nothing else is found is at rest', () => {
  expect(isAtRest(STORED, { found: NOTHING, intent: undefined })).toBe(true)
})

test.each([
  ['runs', { row: { ...STORED, state: 'running' } }],
  ['is frozen', { row: { ...STORED, tier: 'frozen' } }],
  ['was waking', { row: { ...STORED, state: 'resuming' } }],
  ['names a burrow', { row: { ...STORED, burrow: 'bw-aaaaaaaaaaaaaaaa' } }],
  ['has an intent', { intent: 'standby' }],
  ['has a live burrow', { found: { ...NOTHING, burrowsOf: new Map([[ID, [{} as Burrow]]]) } }],
  ['has an unrecorded snapshot', { found: { ...NOTHING, unrecordedOf: new Map([[ID, [{} as Snapshot]]]) } }],
])(
  'a sandbox that %s is not',
  (_what, { row = STORED, found = NOTHING, intent }: Record<string, unknown>) => {
    expect(
      isAtRest(row as SandboxRow, { found: found as Found, intent: intent as 'standby' | undefined }),
    ).toBe(false)
  },
)
