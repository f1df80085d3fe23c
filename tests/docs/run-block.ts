import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { expect, vi } from 'vitest'
import { isAsSaid } from './is-as-said.ts'
import type { Block } from './read-blocks.ts'

// Inside the tree, so that `dormouse` is found as for every other file here.
const here = fileURLToPath(new URL('./', import.meta.url))
const PYTHON = '/usr/bin/python3'

export interface Place {
  /** Where commands are typed. */
  readonly cwd: string
  readonly env: Record<string, string>
}

/** Runs what a reader would run, and holds what it shows against what the document says. */
export async function runBlock(block: Block, place: Place): Promise<void> {
  switch (block.language) {
    case 'ts':
    case 'js':
      return runModule(block)
    case 'python':
      return runPython(block, place)
    case 'bash':
      return runShell(block, place)
    case 'console':
      return runSession(block, place)
    default:
      throw new Error(`"${block.language}" is written as ts, js, python, bash or console here`)
  }
}

let modules = 0

async function runModule({ code }: Block): Promise<void> {
  const said = [...code.matchAll(/console\.log\(.*\/\/ (.*)$/gm)].map((match) => match[1] ?? '')
  const printed: string[] = []
  const log = vi.spyOn(console, 'log').mockImplementation((...values: unknown[]) => {
    printed.push(...values.map(shown).join(' ').split('\n'))
  })
  modules += 1
  const file = `${here}block-${modules}.ts`
  await writeFile(file, code)
  try {
    await import(/* @vite-ignore */ file)
  } finally {
    log.mockRestore()
    await rm(file)
  }
  expectSaid(printed, said)
}

function shown(value: unknown): string {
  if (typeof value === 'string') return value
  return Array.isArray(value) ? JSON.stringify(value) : inspect(value)
}

async function runPython({ code }: Block, place: Place): Promise<void> {
  const said = [...code.matchAll(/print\(.*\) {2}# (.*)$/gm)].map((match) => match[1] ?? '')
  const { status, output } = await run(PYTHON, ['-c', code], place)
  expect(status, output).toBe(0)
  expectSaid(linesOf(output), said)
}

async function runShell({ code }: Block, place: Place): Promise<void> {
  const { status, output } = await run('bash', ['-euo', 'pipefail', '-c', code], place)
  expect(status, output).toBe(0)
}

/** `$ command`, and below it what it shows. Each is a shell of its own, as variables are rarely what a reader should keep. */
async function runSession({ code }: Block, place: Place): Promise<void> {
  const typed = code.split(/^\$ /m).slice(1)
  expect(typed.length, 'a line with "$ "').toBeGreaterThan(0)
  for (const one of typed) {
    const [command = '', ...said] = one.replace(/\\\n/g, '').trimEnd().split('\n')
    // Through one pipe, as on a terminal: through two, data and notes could change places.
    const script = `exec 2>&1\n${command.replace(/\s{2,}# .*$/, '')}`
    const { output } = await run('bash', ['-c', script], place)
    expectSaid(linesOf(output), said, command)
  }
}

function expectSaid(printed: readonly string[], said: readonly string[], what?: string): void {
  if (!isAsSaid(printed, said)) expect(printed.join('\n'), what).toBe(said.join('\n'))
}

function linesOf(output: string): string[] {
  return output === '' ? [] : output.trimEnd().split('\n')
}

async function run(program: string, args: string[], { cwd, env }: Place) {
  const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => {
      output += data
    })
  }
  const [status] = await once(child, 'close')
  return { status, output }
}

/** What a reader has after `./dormouse up` in a clone, with `dormouse` on the PATH. */
export function readersEnvironment(given: {
  bin: string
  url: string
  key: string
  dataDir: string
}): Record<string, string> {
  return {
    PATH: `${given.bin}:${process.env['PATH']}`,
    HOME: given.dataDir,
    LANG: 'C.UTF-8',
    PYTHONPATH: join(here, '../../python'),
    PYTHONDONTWRITEBYTECODE: '1',
    DORMOUSE_DATA: given.dataDir,
    DORMOUSE_URL: given.url,
    DORMOUSE_API_KEY: given.key,
  }
}
