import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { baseFilter } from '../native-programs.ts'
import {
  decodeMessage,
  encodeMessage,
  findUint,
  getAllBytes,
  type Message,
  setBytes,
  setUint,
} from './message.ts'
import { withoutBase } from './seccomp-filters.ts'

const base = readFileSync(baseFilter)
const other = (name: string) => Buffer.from(name.padEnd(8))

/** As CRIU writes them: the newest of a thread first, and each names the one that was loaded after it. */
function entryOf(threads: readonly (readonly Buffer[])[]): Message {
  const entry: Message = []
  for (const oldestFirst of threads) {
    const start = entry.length
    for (const program of oldestFirst.toReversed()) {
      const filter: Message = []
      setBytes(filter, 1, program)
      if (entry.length > start) setUint(filter, 2, BigInt(entry.length - 1))
      entry.push({ no: 1, type: 2, value: encodeMessage(filter) })
    }
  }
  return entry
}

/** What a restore would load for the thread whose oldest filter has this number. */
function loaded(entry: Message, oldest: number): string[] {
  const filters = getAllBytes(entry, 1).map(decodeMessage)
  const programs: string[] = []
  for (let at: number | undefined = oldest; at !== undefined; ) {
    const filter: Message = filters[at] ?? []
    const program = Buffer.from(getAllBytes(filter, 1)[0]!)
    programs.push(program.equals(base) ? 'base' : program.toString().trim())
    const next: bigint | undefined = findUint(filter, 2)
    at = next === undefined ? undefined : Number(next)
  }
  return programs
}

test('of every thread the base is dropped, and the numbers that threads know stay the same', () => {
  const entry = entryOf([
    [base, other('deny'), other('allow')],
    [base, other('deny'), other('allow'), other('own')],
  ])
  expect(loaded(entry, 2)).toEqual(['base', 'deny', 'allow'])
  const kept = withoutBase(entry)
  expect(kept).toHaveLength(7)
  expect(loaded(kept, 2)).toEqual(['deny', 'allow'])
  expect(loaded(kept, 6)).toEqual(['deny', 'allow', 'own'])
  expect(withoutBase(kept)).toEqual(kept)
})

test('only the oldest is taken for the base: a copy that a process loaded itself stays', () => {
  const kept = withoutBase(entryOf([[base, other('deny'), base]]))
  expect(loaded(kept, 2)).toEqual(['deny', 'base'])
})

test('filters of a burrow without a base stay as they are', () => {
  const entry = entryOf([[other('deny'), other('allow')], [base]])
  expect(withoutBase(entry)).toEqual(entry)
})
