import type { HostRecord } from '@dormouse/cluster'
import { expect, test } from 'vitest'
import type { SnapshotCarrier } from './snapshot-carrier.ts'
import { limitSnapshotForms } from './snapshot-forms.ts'

/** Whether upkeep may fold when these hosts were seen. */
function mayFold(seen: readonly Partial<HostRecord>[]): boolean {
  let isUsable: (form: string) => boolean = () => true
  const limitForms = (given: typeof isUsable) => {
    isUsable = given
  }
  limitSnapshotForms({ limitForms } as unknown as SnapshotCarrier, {
    seenWithin: () => seen as HostRecord[],
  })
  return isUsable('folded')
}

test('a form is used when all hosts know it, and not while one is of a version before it', () => {
  expect(mayFold([{ forms: ['folded'] }, { forms: ['folded', 'later'] }])).toBe(true)
  expect(mayFold([{ forms: ['folded'] }, {}])).toBe(false)
  expect(mayFold([{ forms: ['folded'] }, { forms: [] }])).toBe(false)
})
