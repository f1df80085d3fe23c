import type { CommandIo } from './command-io.ts'
import { terminalLost } from './terminal-loss.ts'

const ENTER = /[\r\n]/
const CTRL_C = '\u0003'
const CTRL_D = '\u0004'
const CTRL_U = '\u0015'
const BACKSPACE = /[\b\u007f]/

/** Reads a line from the terminal without showing it. Only Enter and Ctrl-D end the line. */
export async function readHidden({ stdin, stderr, signal }: CommandIo, prompt: string): Promise<string> {
  stderr.write(prompt)
  // The modes of a terminal that is lost cannot be reset.
  stdin.on('error', () => {})
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
    throw terminalLost()
  } finally {
    stdin.setRawMode(false)
    stdin.pause()
    stderr.write('\n')
  }
}
