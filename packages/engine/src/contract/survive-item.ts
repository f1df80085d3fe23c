import { expect } from 'vitest'
import type { Guest } from '../guest.ts'

/** Something that must survive sleep and fork. One sandbox has all of them at once. */
export interface Survivor {
  readonly title: string
  setUp(guest: Guest): Promise<void>
  /**
   * Called after a restore, then again on both sides of a fork, so it must be repeatable.
   */
  check(guest: Guest): Promise<void>
}

export interface PythonSurvivor {
  /** Python code. `check` sees its names, other items do not. */
  readonly setUp: string
  /** Python code that raises if something has changed. */
  readonly check: string
}

/** Items in the kernel of one context: set up before, checked after. */
export function inContext(context: string, items: Readonly<Record<string, PythonSurvivor>>): Survivor[] {
  return Object.entries(items).map(([title, { setUp, check }]) => ({
    title,
    setUp: (guest) => runIn(guest, context, `set_up(${JSON.stringify(title)}, ${literal(setUp)})`),
    check: (guest) => runIn(guest, context, `look_at(${JSON.stringify(title)}, ${literal(check)})`),
  }))
}

/** Defines helpers for the code of items, once in every context. */
export async function prepareContext(guest: Guest, context: string): Promise<void> {
  if (context !== 'default') await guest.contexts.create({ context })
  await runIn(guest, context, PRELUDE)
}

const PRELUDE = dedent(`
  import linecache, os, sys, time
  items = {}

  def until(condition, seconds=20):
      deadline = time.monotonic() + seconds
      while not condition():
          assert time.monotonic() < deadline, "timed out"
          time.sleep(0.01)

  def run_as(title, step, code):
      # The lines of the code, for tracebacks.
      name = f"<{title}: {step}>"
      linecache.cache[name] = (len(code), None, code.splitlines(True), name)
      exec(compile(code, name, "exec"), items[title])

  def set_up(title, code):
      items[title] = {"__name__": "__main__", "until": until, "os": os, "sys": sys, "time": time}
      run_as(title, "set up", code)

  def look_at(title, code):
      run_as(title, "check", code)
`)

async function runIn(guest: Guest, context: string, code: string): Promise<void> {
  const { error, stdout, exitCode } = await guest.runs.run({ code, context, timeoutMs: 40_000 })
  // The end of the traceback has the failing line of the item's code.
  const wrong = error?.traceback.trim().split('\n').slice(-5).join('\n')
  expect({ wrong, stdout, exitCode }).toEqual({ wrong: undefined, stdout: '', exitCode: 0 })
}

/** Python understands all escapes of JSON. */
function literal(code: string): string {
  return JSON.stringify(dedent(code))
}

function dedent(text: string): string {
  const lines = text.replace(/^\n/, '').split('\n')
  const indent = Math.min(...lines.filter((line) => line.trim() !== '').map((line) => line.search(/\S/)))
  return lines.map((line) => line.slice(indent)).join('\n')
}
