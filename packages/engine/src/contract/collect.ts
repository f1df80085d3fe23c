import type { ProcessEvent, RunEvent } from '@dormouse/contracts'
import { expect } from 'vitest'
import type { Guest } from '../guest.ts'

type AnyEvent = RunEvent | ProcessEvent

export async function collect<Element>(source: AsyncIterable<Element>): Promise<Element[]> {
  const elements: Element[] = []
  for await (const element of source) elements.push(element)
  return elements
}

export async function collectBytes(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  return Buffer.concat(await collect(source))
}

export const collectText = async (source: AsyncIterable<Uint8Array>) =>
  (await collectBytes(source)).toString()

/** All text of one stream, in order. */
export function textOf(events: readonly AnyEvent[], type: 'stdout' | 'stderr'): string {
  return events.map((event) => (event.type === type ? event.data : '')).join('')
}

/** Every journal has numbers without gaps, except where events are marked as dropped, and one `exit`, at the end. */
export function expectWholeJournal(events: readonly AnyEvent[]): void {
  let next = 0
  for (const event of events) {
    if (event.type === 'truncated') next += event.events - 1
    expect(event.seq).toBe(next)
    next += 1
  }
  expect(events.filter(({ type }) => type === 'exit')).toHaveLength(1)
  expect(events.at(-1)?.type).toBe('exit')
}

/** Runs Python that must succeed, and returns what it printed. */
export async function runPython(guest: Guest, code: string, context = 'default'): Promise<string> {
  const run = await guest.runs.run({ code, context })
  expect({ stderr: run.stderr, exitCode: run.exitCode }).toEqual({ stderr: '', exitCode: 0 })
  return run.stdout
}

const POLL_MS = 20
const TIMEOUT_MS = 30_000

/** Polls `find` until it returns a value. Throws after 30 seconds. */
export async function eventually<Value>(
  what: string,
  find: () => Promise<Value | undefined | false>,
): Promise<Value> {
  const deadline = Date.now() + TIMEOUT_MS
  for (;;) {
    const found = await find()
    if (found !== undefined && found !== false) return found
    if (Date.now() > deadline) throw new Error(`timed out waiting for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
}

export function fileAppears(guest: Guest, path: string): Promise<true> {
  return eventually(path, async () => {
    try {
      await guest.files.stat(path)
      return true
    } catch {
      return false
    }
  })
}
