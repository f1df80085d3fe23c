import { setTimeout as sleep } from 'node:timers/promises'
import type { ProcessEvent } from '@dormouse/contracts'
import type { Guest } from '@dormouse/engine'

/** What the log takes of one replica. The server reads no more; the agent drops the rest. */
const BYTES_PER_SECOND = 1_000_000
const LINE_MAX_CHARACTERS = 4_000
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const UNPRINTABLE = /\u001b\[[0-9;?]*[ -/]*[@-~]|[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g

export interface ProgramLine {
  readonly stream: 'stdout' | 'stderr' | 'system'
  readonly text: string
  readonly eventSeq: number
}

export type ProgramExit = Extract<ProcessEvent, { type: 'exit' }>

/**
 * Follows the output of a process, whole lines at a time. Returns how it ended. Throws when the connection to the agent
 * ends, because the sandbox goes to sleep or its burrow ended.
 */
export async function followProgram(
  guest: Guest,
  { processId, after, signal }: { processId: string; after: number; signal: AbortSignal },
  onLine: (line: ProgramLine) => void,
): Promise<ProgramExit | undefined> {
  const lines = { stdout: new Lines(), stderr: new Lines() }
  for await (const event of guest.processes.events(processId, { after, follow: true, signal })) {
    const eventSeq = event.seq
    if (event.type === 'stdout' || event.type === 'stderr') {
      for (const text of lines[event.type].add(event.data)) onLine({ stream: event.type, text, eventSeq })
      await sleep((event.data.length * 1000) / BYTES_PER_SECOND, undefined, { ref: false, signal })
    } else if (event.type === 'truncated')
      onLine({ stream: 'system', text: `${event.bytes} bytes of output were dropped.`, eventSeq })
    else if (event.type === 'exit') {
      for (const stream of ['stdout', 'stderr'] as const)
        for (const text of lines[stream].rest()) onLine({ stream, text, eventSeq })
      return event
    }
  }
  return undefined
}

/** Cuts output into lines. */
class Lines {
  #rest = ''

  add(data: string): string[] {
    const lines = (this.#rest + data).split('\n')
    this.#rest = lines.pop() ?? ''
    // A line without an end must not grow for ever.
    if (this.#rest.length > LINE_MAX_CHARACTERS) lines.push(...this.rest())
    return lines.map(plain)
  }

  rest(): string[] {
    const rest = this.#rest
    this.#rest = ''
    return rest === '' ? [] : [plain(rest)]
  }
}

/** The output comes from a sandbox: terminals that show it must not obey it. */
function plain(line: string): string {
  return line.replaceAll(UNPRINTABLE, '').slice(0, LINE_MAX_CHARACTERS)
}
