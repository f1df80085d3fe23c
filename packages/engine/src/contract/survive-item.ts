import { expect } from 'vitest'
import type { Guest } from '../guest.ts'

/** Something that must come through sleep and fork. One sandbox carries all of them at once. */
export interface Survivor {
  readonly title: string
  setUp(guest: Guest): Promise<void>
  /** Called after a restore, then again in both sides of a fork: it leaves things so that it can be called once more. */
  check(guest: Guest): Promise<void>
}

export interface PythonSurvivor {
  /** Python, with names of its own: `check` sees them, other things do not. */
  readonly setUp: string
  /** Python that raises when something is not as it was. */
  readonly check: string
}

/** Things that live in the kernel of one context, made before and looked at after. */
export function inContext(context: string, things: Readonly<Record<string, PythonSurvivor>>): Survivor[] {
  return Object.entries(things).map(([title, { setUp, check }]) => ({
    title,
    setUp: (guest) => runIn(guest, context, `set_up(${JSON.stringify(title)}, ${literal(setUp)})`),
    check: (guest) => runIn(guest, context, `look_at(${JSON.stringify(title)}, ${literal(check)})`),
  }))
}

/** Defines what the code of Python things may use; once in every context. */
export async function prepareContext(guest: Guest, context: string): Promise<void> {
  if (context !== 'default') await guest.contexts.create({ context })
  await runIn(guest, context, PRELUDE)
}

const PRELUDE = dedent(`
  import linecache, os, sys, time
  things = {}

  def until(condition, seconds=20):
      deadline = time.monotonic() + seconds
      while not condition():
          assert time.monotonic() < deadline, "waited in vain"
          time.sleep(0.01)

  def run_as(title, step, code):
      # The lines of the code, for tracebacks.
      name = f"<{title}: {step}>"
      linecache.cache[name] = (len(code), None, code.splitlines(True), name)
      exec(compile(code, name, "exec"), things[title])

  def set_up(title, code):
      things[title] = {"__name__": "__main__", "until": until, "os": os, "sys": sys, "time": time}
      run_as(title, "set up", code)

  def look_at(title, code):
      run_as(title, "check", code)
`)

async function runIn(guest: Guest, context: string, code: string): Promise<void> {
  const { error, stdout, exitCode } = await guest.runs.run({ code, context, timeoutMs: 40_000 })
  // What went wrong is at the end: the line of the thing's own code.
  const wrong = error?.traceback.trim().split('\n').slice(-5).join('\n')
  expect({ wrong, stdout, exitCode }).toEqual({ wrong: undefined, stdout: '', exitCode: 0 })
}

/** JSON's escapes are all Python's too. */
function literal(code: string): string {
  return JSON.stringify(dedent(code))
}

function dedent(text: string): string {
  const lines = text.replace(/^\n/, '').split('\n')
  const indent = Math.min(...lines.filter((line) => line.trim() !== '').map((line) => line.search(/\S/)))
  return lines.map((line) => line.slice(indent)).join('\n')
}
