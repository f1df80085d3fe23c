import { rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { checkJson } from './check-json.ts'
import { isAsSaid } from './is-as-said.ts'
import type { Block } from './read-blocks.ts'
import { type Place, runProgram } from './run-program.ts'

// Inside the tree, so that `dormouse` is found as a reader's program in the clone finds it.
const here = fileURLToPath(new URL('./', import.meta.url))
const PYTHON = '/usr/bin/python3'

/** Runs what a reader would run, as they would, and holds what it shows against what the document says. */
export async function runBlock(block: Block, place: Place): Promise<void> {
  switch (block.language) {
    case 'js':
      return runModule(block, place)
    case 'python':
      return runPython(block, place)
    case 'bash':
      return runShell(block, place)
    case 'console':
      return runSession(block, place)
    case 'json':
      return checkJson(block, place)
    default:
      // Not ts: the oldest Node that is promised cannot run it, and a document should need no more than Node.
      throw new Error(`"${block.language}" is written as js, python, bash, console or json here`)
  }
}

async function runModule({ code }: Block, place: Place): Promise<void> {
  const said = [...code.matchAll(/console\.log\(.*\/\/ (.*)$/gm)].map((match) => match[1] ?? '')
  await runFile(process.execPath, { code, ending: 'mjs', said }, place)
}

async function runPython({ code }: Block, place: Place): Promise<void> {
  const said = [...code.matchAll(/print\(.*\) {2}# (.*)$/gm)].map((match) => match[1] ?? '')
  await runFile(PYTHON, { code, ending: 'py', said }, place)
}

let files = 0

async function runFile(
  program: string,
  { code, ending, said }: { code: string; ending: string; said: readonly string[] },
  place: Place,
): Promise<void> {
  files += 1
  const file = `${here}block-${files}.${ending}`
  await writeFile(file, code)
  try {
    const { status, output } = await runProgram(program, [file], place)
    expect(status, output).toBe(0)
    expectSaid(linesOf(output), said)
  } finally {
    await rm(file)
  }
}

async function runShell({ code }: Block, place: Place): Promise<void> {
  const { status, output } = await runProgram('bash', ['-euo', 'pipefail', '-c', code], place)
  expect(status, output).toBe(0)
}

/**
 * `$ command`, and below it what it shows. Each is a shell of its own, as variables are rarely what a reader should keep.
 * One that is meant to fail says so behind it: `  # exits with 6`.
 */
async function runSession({ code }: Block, place: Place): Promise<void> {
  const typed = code.split(/^\$ /m).slice(1)
  expect(typed.length, 'a line with "$ "').toBeGreaterThan(0)
  for (const one of typed) {
    const [line = '', ...said] = one.replace(/\\\n/g, '').trimEnd().split('\n')
    const [command = '', comment = ''] = line.split(/\s{2,}(?=# )/)
    const expected = Number(/^# exits with (\d+)/.exec(comment)?.[1] ?? 0)
    // Through one pipe, as on a terminal: through two, data and notes could change places.
    const script = `exec 2>&1\n${command}`
    const { status, output } = await runProgram('bash', ['-o', 'pipefail', '-c', script], place)
    expectSaid(linesOf(output), said, command)
    expect(status, `the status of: ${command}\n${output}`).toBe(expected)
  }
}

function expectSaid(printed: readonly string[], said: readonly string[], what?: string): void {
  if (!isAsSaid(printed, said)) expect(printed.join('\n'), what).toBe(said.join('\n'))
}

function linesOf(output: string): string[] {
  return output === '' ? [] : output.trimEnd().split('\n')
}
