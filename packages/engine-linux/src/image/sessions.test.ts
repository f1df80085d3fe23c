import { describe, expect, it } from 'vitest'
import { findUnrestorable, type TreeProcess } from './sessions.ts'

/** pid, parent, session */
function tree(...rows: readonly (readonly [number, number, number])[]): TreeProcess[] {
  return rows.map(([pid, parent, session]) => ({ pid, parent, session }))
}

const ROOT = [2, 0, 2] as const

describe('findUnrestorable', () => {
  it.each([
    { what: 'a plain tree', rows: tree(ROOT, [3, 2, 3], [4, 3, 3], [5, 4, 3]) },
    { what: 'a leader of its own session', rows: tree(ROOT, [3, 2, 3], [4, 3, 4], [5, 4, 4]) },
    {
      what: 'an orphan of the root whose leader is gone',
      rows: tree(ROOT, [3, 2, 3], [10, 2, 9], [11, 10, 9]),
    },
    {
      what: 'a child from before its parent began a session',
      rows: tree(ROOT, [3, 2, 3], [4, 3, 4], [5, 4, 3]),
    },
  ])('finds none in $what', ({ rows }) => {
    expect(findUnrestorable(rows)).toBeUndefined()
  })

  it.each([
    {
      what: 'an adopted orphan whose leader is gone',
      rows: tree(ROOT, [3, 2, 3], [4, 3, 3], [6, 4, 5]),
      pid: 6,
    },
    {
      what: 'an adopted orphan whose leader is a sibling',
      rows: tree(ROOT, [3, 2, 3], [4, 3, 3], [5, 4, 5], [6, 4, 5]),
      pid: 6,
    },
    {
      what: 'children of one parent from two sessions before its own',
      rows: tree(ROOT, [3, 2, 3], [4, 3, 4], [5, 4, 5], [6, 5, 3], [7, 5, 4]),
      pid: 7,
    },
  ])('finds $what', ({ rows, pid }) => {
    expect(findUnrestorable(rows)?.pid).toBe(pid)
  })
})
