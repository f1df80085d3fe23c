import type { CommandIo } from './command-io.ts'

const ENTER = /[\r\n]/
const CTRL_C = '\u0003'
const CTRL_D = '\u0004'
const CTRL_U = '\u0015'
const BACKSPACE = /[\b\u007f]/

/** Reads a line from the terminal without showing it. */
export async function readHidden({ stdin, stderr, signal }: CommandIo, prompt: string): Promise<string> {
  stderr.write(prompt)
  stdin.setRawMode(true)
  let line = ''
  try {
    for await (const piece of stdin.iterator({ destroyOnReturn: false })) {
      for (const key of String(piece)) {
        if (ENTER.test(key) || key === CTRL_D) return line
        if (key === CTRL_C) throw new DOMException('stopped', 'AbortError')
        if (key === CTRL_U) line = ''
        else if (BACKSPACE.test(key)) line = line.slice(0, -1)
        else line += key
      }
      signal.throwIfAborted()
    }
    return line
  } finally {
    stdin.setRawMode(false)
    stdin.pause()
    stderr.write('\n')
  }
}
