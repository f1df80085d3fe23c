import type { ResultData, RunEvent } from 'dormouse'
import { formatBytes } from '../format/amounts.ts'
import type { CommandIo } from './command-io.ts'

/** Prints an event of a run: output unchanged, results as text. */
export function showEvent(
  event: RunEvent,
  { stdout, stderr, signal }: Pick<CommandIo, 'stdout' | 'stderr' | 'signal'>,
): void {
  // The reader of the output is gone.
  if (signal.reason === 'SIGPIPE') return
  switch (event.type) {
    case 'start':
      if (event.contextRestarted !== undefined) stderr.write(`dormouse: ${event.contextRestarted}\n`)
      break
    case 'stdout':
      stdout.write(event.data)
      break
    case 'stderr':
      stderr.write(event.data)
      break
    case 'result':
      stdout.write(`${resultText(event.data)}\n`)
      break
    case 'truncated':
      stderr.write(`dormouse: ${formatBytes(event.bytes)} of output were dropped from the journal\n`)
      break
    case 'exit':
      if (event.timedOut === true) stderr.write('dormouse: interrupted after its timeout\n')
      break
    // stderr already has the traceback.
    case 'error':
      break
  }
}

/** The text of a result; without text, its types: `[image/png, 12 kB]`. */
export function resultText(data: ResultData): string {
  const text = data['text/plain']
  const others = Object.entries(data).filter(([type]) => type.startsWith('image/'))
  const shown = others.map(([type, value]) => `[${type}, ${formatBytes(String(value).length * 0.75)}]`)
  return (
    [...(typeof text === 'string' ? [text] : []), ...shown].join(' ') || `[${Object.keys(data).join(', ')}]`
  )
}
