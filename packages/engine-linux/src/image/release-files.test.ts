import { expect, test } from 'vitest'
import type { ChangedRegion } from './choose-rewrites.ts'
import { releaseFiles } from './release-files.ts'

const MB = 1024 ** 2
const PIECES = [
  { start: 0, end: 100 * MB, file: 'old' },
  { start: 100 * MB, end: 110 * MB, file: 'older' },
]
const region: ChangedRegion = {
  start: 0,
  end: 110 * MB,
  pieces: PIECES,
  changed: [{ start: 99 * MB, end: 100 * MB }],
}
const other: ChangedRegion = {
  start: 200 * MB,
  end: 205 * MB,
  pieces: [{ start: 200 * MB, end: 205 * MB, file: 'old' }],
  changed: [],
}
const rewrite = (end: number) => ({ region, start: 0, end: end * MB, changedBytes: 0, baseBytes: 0 })
const stored = new Map([
  ['old', 105 * MB],
  ['older', 105 * MB],
])

test('the rest of a memory file is rewritten too, when it is small', () => {
  expect(releaseFiles([region, other], [rewrite(90)], stored)).toEqual([
    { region, start: 0, end: 100 * MB, changedBytes: MB, baseBytes: 9 * MB },
    { region: other, start: 200 * MB, end: 205 * MB, changedBytes: 0, baseBytes: 5 * MB },
  ])
})

test('a large rest stays where it is, and so do files of which nothing is rewritten', () => {
  expect(releaseFiles([region, other], [rewrite(60)], stored)).toEqual([rewrite(60)])
  expect(releaseFiles([region, other], [], stored)).toEqual([])
})
