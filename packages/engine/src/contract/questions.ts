import type { InputEvent } from '@dormouse/contracts'
import { newRunId, type RunEvent, type RunId } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import type { Guest } from '../guest.ts'
import { collect, runPython, textOf } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'
import { startRun } from './start-run.ts'

/** Code that asks, and half-typed code that a context completes. */
export function describeQuestions(factory: EngineFactory): void {
  describe('questions of a run', () => {
    const shared = useSharedBurrow(factory)

    test('input() returns the answer, and output keeps its place before and after it', async () => {
      const { guest } = shared
      const events = await answering(guest, 'print("a", end=""); print("b", input("name? "))', ['Ada ä🐭'])
      expect(events.map(({ type }) => type)).toEqual(['start', 'stdout', 'input', 'stdout', 'exit'])
      expect(events[2]).toEqual({ seq: 2, type: 'input', prompt: 'name? ' })
      expect(textOf(events, 'stdout')).toBe('ab Ada ä🐭\n')
    })

    test('getpass() asks for hidden input, and each question gets its own answer', async () => {
      const code = 'import getpass\nx = [getpass.getpass(), input(), input("last")]\nprint(x)'
      const events = await answering(shared.guest, code, ['p', '', 'c'])
      const questions = events.filter((event) => event.type === 'input')
      expect(questions).toMatchObject([
        { prompt: 'Password: ', hidden: true },
        { prompt: '' },
        { prompt: 'last' },
      ])
      expect(textOf(events, 'stdout')).toBe("['p', '', 'c']\n")
    })

    test('the end of input is an EOFError, and the context continues', async () => {
      const code = 'try: input()\nexcept EOFError as error: print(type(error).__name__)'
      expect(textOf(await answering(shared.guest, code, [undefined]), 'stdout')).toBe('EOFError\n')
    })

    test('an answer that nothing waits for is a conflict and changes nothing', async () => {
      const { guest } = shared
      const code = 'import time\ntime.sleep(0.1)\nfirst = input()\nprint(first, input())'
      const events = await answering(guest, code, ['one', 'two'], async (runId, { seq }) => {
        await expect(guest.runs.input(runId, { seq: seq + 1, text: 'early' })).rejects.toMatchObject({
          code: 'conflict',
        })
        await expect(guest.runs.input(runId, { seq: 0, text: 'late' })).rejects.toMatchObject({
          code: 'conflict',
        })
      })
      expect(textOf(events, 'stdout')).toBe('one two\n')
      const runId = (events[0] as RunEvent & { type: 'start' }).runId
      const last = events.findLast((event) => event.type === 'input')
      await expect(guest.runs.input(runId, { seq: last?.seq ?? 0, text: 'x' })).rejects.toMatchObject({
        code: 'conflict',
      })
      await expect(guest.runs.input(newRunId(), { seq: 0, text: 'x' })).rejects.toMatchObject({
        code: 'not_found',
      })
    })

    test('an interrupt ends the wait, and the next run asks again', async () => {
      const { guest } = shared
      const runId = newRunId()
      const events: RunEvent[] = []
      for await (const event of guest.runs.stream({ runId, code: 'kept = 1\ninput("never")', input: true })) {
        events.push(event)
        if (event.type === 'input') await guest.runs.interrupt(runId)
      }
      expect(events.at(-1)).toMatchObject({ type: 'exit', exitCode: 130, interrupted: true })
      expect(textOf(await answering(guest, 'print(kept, input())', ['again']), 'stdout')).toBe('1 again\n')
    })

    test('other threads cannot ask, and bash code cannot', async () => {
      const code =
        'import threading\ndef ask():\n    try: input()\n    except EOFError as error: print(error)\n' +
        'thread = threading.Thread(target=ask); thread.start(); thread.join()'
      expect(textOf(await answering(shared.guest, code, []), 'stdout')).toContain('only the main thread')
      const bash = shared.guest.runs.run({ code: 'read x', language: 'bash', input: true })
      await expect(bash).rejects.toMatchObject({ code: 'invalid_argument' })
    })

    test('an open question survives a sleep, and is answered after the wake', async () => {
      const burrow = await shared.create()
      const runId = await startRun(burrow.guest, { code: 'print("hello", input("who? "))', input: true })
      const question = await questionOf(burrow.guest, runId)
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
      await woken.guest.runs.input(runId, { seq: question.seq, text: 'dormouse' })
      const events = await collect(woken.guest.runs.events(runId, { after: question.seq }))
      expect(textOf(events, 'stdout')).toBe('hello dormouse\n')
      expect(events.at(-1)).toMatchObject({ type: 'exit', exitCode: 0 })
    })
  })

  describe('completion', () => {
    const shared = useSharedBurrow(factory)
    const complete = (code: string) => shared.guest.contexts.complete('default', code)

    test('finds variables, attributes, keys and modules, and says what they replace', async () => {
      await runPython(shared.guest, 'burrow_count = 3; pet = {"dormouse": 1}\nimport math')
      expect(await complete('x = burrow_c')).toEqual({
        matches: ['burrow_count'],
        replaces: 'burrow_c',
        more: false,
      })
      expect(await complete('if True:\n    math.fl')).toMatchObject({ matches: ['floor'], replaces: 'fl' })
      expect((await complete('pet["dorm')).matches.join()).toContain('dormouse')
      expect((await complete('import colle')).matches).toContain('collections')
      expect(await complete('no_such_name_anywhere')).toMatchObject({ matches: [] })
      // Binds no names, and the next run has the number that it would have had.
      expect(await runPython(shared.guest, 'print("collections" in globals())')).toBe('False\n')
    })

    test('is bounded in number, length and time', async () => {
      const { guest } = shared
      await runPython(
        guest,
        'for n in range(500): globals()[f"many_{n}"] = n\nglobals()["many_" + "x" * 999] = 1',
      )
      const many = await complete('many_')
      expect(many.matches).toHaveLength(200)
      expect(many.more).toBe(true)
      await runPython(
        guest,
        'import time\nclass Slow:\n    def __dir__(self):\n        while True: time.sleep(1)\nslow = Slow()',
      )
      expect(await complete('slow.')).toMatchObject({ more: false })
      expect(await runPython(guest, 'print("free")')).toBe('free\n')
      await expect(complete('x'.repeat(70_000))).rejects.toMatchObject({ code: 'invalid_argument' })
    })

    test('is refused while the context has a run, and for a context that does not exist', async () => {
      const { guest } = shared
      const runId = await startRun(guest, { code: 'import time; time.sleep(1000)' })
      await expect(complete('ti')).rejects.toMatchObject({ code: 'conflict' })
      await guest.runs.interrupt(runId)
      await collect(guest.runs.events(runId))
      await expect(guest.contexts.complete('none', 'x')).rejects.toMatchObject({ code: 'not_found' })
    })
  })
}

/** Runs code and answers its questions in order. Checks that it asks no others. */
async function answering(
  guest: Guest,
  code: string,
  answers: readonly (string | undefined)[],
  before?: (runId: RunId, question: InputEvent) => Promise<void>,
): Promise<RunEvent[]> {
  const runId = newRunId()
  const events: RunEvent[] = []
  let asked = 0
  for await (const event of guest.runs.stream({ runId, code, input: true })) {
    events.push(event)
    if (event.type !== 'input') continue
    expect(asked).toBeLessThan(answers.length)
    await before?.(runId, event)
    const text = answers[asked++]
    await guest.runs.input(runId, { seq: event.seq, ...(text !== undefined && { text }) })
  }
  expect(asked).toBe(answers.length)
  return events
}

async function questionOf(guest: Guest, runId: RunId): Promise<InputEvent> {
  for await (const event of guest.runs.events(runId)) if (event.type === 'input') return event
  throw new Error('the run asked nothing')
}
