import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** Where a reader is. */
export interface Place {
  /** Where commands are typed. */
  readonly cwd: string
  readonly env: Record<string, string>
}

export interface Ended {
  readonly status: number | null
  readonly output: string
}

/** Runs a program to its end, with nothing to read. */
export async function runProgram(program: string, args: readonly string[], place: Place): Promise<Ended> {
  const child = spawn(program, args, { ...place, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => {
      output += data
    })
  }
  const [status] = await once(child, 'close')
  return { status, output }
}
