import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll } from 'vitest'
import { type SharedBurrow, useSharedBurrow } from '../../packages/engine/src/contract/shared-burrow.ts'
import { type IsolatedFactory, isolatedFactory } from './isolated-factory.ts'

export type Who = 'root' | 'user'
export const EVERYONE: readonly Who[] = ['root', 'user']

export interface Attackers extends SharedBurrow {
  readonly factory: IsolatedFactory
  /** Value of a Python expression inside, by `who`; the names of attack.py, `os` and others are at hand. */
  attempt(who: Who, expression: string): Promise<unknown>
  /** Output of Python code. Fails when the code does. */
  python(who: Who, code: string): Promise<string>
  /** What a shell line prints, stderr too, and its exit code. */
  shell(who: Who, line: string): Promise<{ output: string; exitCode: number }>
}

const PREAMBLE = `
import ctypes, errno, fcntl, json, os, signal, socket, struct, sys
sys.path.insert(0, '/opt')
from attack import *
`

/** One burrow with a Python kernel of root and one of the ordinary user. Call it at the top of a test file. */
export async function useAttackers(): Promise<Attackers> {
  const factory = await isolatedFactory()
  // First here is last there: the factory cleans up when the shared burrow is gone.
  afterAll(() => factory.cleanUp())
  const shared = useSharedBurrow(factory, { user: 'root' })
  const attack = await readFile(new URL('attack.py', import.meta.url))

  const python = async (who: Who, code: string) => {
    const run = await shared.guest.runs.run({ code, context: who })
    if (run.exitCode !== 0) throw new Error(`${who}: exit code ${run.exitCode}\n${run.stderr}`)
    return run.stdout
  }
  beforeAll(async () => {
    await shared.guest.files.write('/opt/attack.py', attack, { user: 'root', mode: 0o644 })
    for (const who of EVERYONE) {
      await shared.guest.contexts.create({ context: who, user: who })
      await python(who, PREAMBLE)
    }
  })
  return {
    factory,
    get engine() {
      return shared.engine
    },
    get burrow() {
      return shared.burrow
    },
    get guest() {
      return shared.guest
    },
    create: (request) => shared.create(request),
    python,
    async attempt(who, expression) {
      return JSON.parse(await python(who, `print(json.dumps(\n${expression}\n))`))
    },
    async shell(who, line) {
      let output = ''
      for await (const event of shared.guest.processes.stream({ shell: line, user: who })) {
        if (event.type === 'stdout' || event.type === 'stderr') output += event.data
        if (event.type === 'exit') return { output, exitCode: event.exitCode }
      }
      throw new Error('The process never ended.')
    },
  }
}
